// Compiles `src` to `dist`. npm runs it as `prepare`: also when another project installs this folder, whose tools and Redis
// client it then installs first, because npm only links such a folder.
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const folder = dirname(fileURLToPath(import.meta.url));
const tools = join(folder, 'node_modules', 'typescript', 'bin', 'tsc');
const client = join(folder, 'node_modules', 'ioredis');
if (!existsSync(tools) || !existsSync(client)) {
  const npm = process.platform === 'win32' ? 'npm.cmd' : 'npm';
  const options = ['ci', '--ignore-scripts', '--include=dev', '--no-audit', '--no-fund', '--global=false', '--loglevel=error'];
  execFileSync(npm, options, { cwd: folder, stdio: 'inherit', shell: process.platform === 'win32' });
}
execFileSync(process.execPath, [tools, '-p', folder], { cwd: folder, stdio: 'inherit' });
