// Node.js 18, which is Debian 12's, has no global `crypto`; the server of the npm package uses it.
globalThis.crypto ??= require("node:crypto").webcrypto;
