// Compiles `src` to `dist`. npm runs it as `prepare`: also when another project installs this folder, whose tools it then
// installs first, because npm only links such a folder. Agents may start from `dist` meanwhile, so each file is replaced in
// one act.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const folder = dirname(fileURLToPath(import.meta.url));
const tools = join(folder, 'node_modules', 'typescript', 'bin', 'tsc');
if (!existsSync(tools)) {
  const npm = process.platform === 'win32' ? 'npm.cmd' : 'npm';
  const options = ['ci', '--ignore-scripts', '--include=dev', '--no-audit', '--no-fund', '--global=false', '--loglevel=error'];
  execFileSync(npm, options, { cwd: folder, stdio: 'inherit', shell: process.platform === 'win32' });
}
const built = mkdtempSync(join(folder, '.dist-'));
try {
  execFileSync(process.execPath, [tools, '-p', folder, '--outDir', built], { cwd: folder, stdio: 'inherit' });
  const dist = join(folder, 'dist');
  mkdirSync(dist, { recursive: true });
  const files = readdirSync(built);
  for (const file of files) renameSync(join(built, file), join(dist, file));
  for (const file of readdirSync(dist)) if (!files.includes(file)) rmSync(join(dist, file), { recursive: true });
} finally {
  rmSync(built, { recursive: true });
}
