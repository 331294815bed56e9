// Log lines of a worker.

/** How serious a line is. */
export type Level = 'debug' | 'info' | 'warn' | 'error';

/** Takes a line: a sentence, and values that belong to it. */
export type Log = (level: Level, message: string, fields?: Record<string, unknown>) => void;

/** Writes lines as JSON to standard error. */
export const writeLog: Log = (level, message, fields = {}) => {
  process.stderr.write(`${JSON.stringify({ time: new Date().toISOString(), level, message, ...fields })}\n`);
};
