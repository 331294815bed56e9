// A small identity provider in this process: everybody who comes is signed in at once, as one person.

import { createHash, createPublicKey, generateKeyPairSync, sign } from "node:crypto";
import { createServer } from "node:http";

const base64url = (value) => Buffer.from(typeof value === "string" ? value : JSON.stringify(value)).toString("base64url");

export class Provider {
  /** `groups` are those of whoever signs in; `refuses` makes it say no. */
  static async start() {
    const own = new Provider();
    own.groups = ["team"];
    own.refuses = false;
    own.codes = new Map();
    const pair = generateKeyPairSync("ec", { namedCurve: "P-256" });
    own.key = pair.privateKey;
    own.jwk = { ...createPublicKey(pair.privateKey).export({ format: "jwk" }), kid: "one", use: "sig" };
    own.server = createServer((request, response) => own.answer(request, response).catch((error) => { response.statusCode = 500; response.end(error.message); }));
    await new Promise((resolve) => own.server.listen(0, "127.0.0.1", resolve));
    own.issuer = `http://127.0.0.1:${own.server.address().port}`;
    return own;
  }

  close() { this.server.close(); this.server.closeAllConnections(); }

  async answer(request, response) {
    const url = new URL(request.url, this.issuer);
    const json = (value, status = 200) => { response.writeHead(status, { "Content-Type": "application/json" }); response.end(JSON.stringify(value)); };
    if (url.pathname === "/.well-known/openid-configuration") {
      json({ issuer: this.issuer, jwks_uri: `${this.issuer}/keys`, authorization_endpoint: `${this.issuer}/authorize`, token_endpoint: `${this.issuer}/token` });
    } else if (url.pathname === "/keys") {
      json({ keys: [this.jwk] });
    } else if (url.pathname === "/authorize") {
      const back = new URL(url.searchParams.get("redirect_uri"));
      back.searchParams.set("state", url.searchParams.get("state"));
      if (this.refuses) back.searchParams.set("error", "access_denied");
      else {
        const code = base64url(String(Math.random()));
        this.codes.set(code, Object.fromEntries(url.searchParams));
        back.searchParams.set("code", code);
      }
      response.writeHead(302, { Location: back.href });
      response.end();
    } else if (url.pathname === "/token") {
      let body = "";
      for await (const chunk of request) body += chunk;
      const asked = new URLSearchParams(body);
      const begun = this.codes.get(asked.get("code"));
      this.codes.delete(asked.get("code"));
      const challenge = createHash("sha256").update(asked.get("code_verifier") || "").digest("base64url");
      if (!begun || challenge !== begun.code_challenge) json({ error: "invalid_grant" }, 400);
      else json({ token_type: "Bearer", id_token: this.token({ aud: begun.client_id, nonce: begun.nonce }) });
    } else json({}, 404);
  }

  token(claims) {
    const now = Math.floor(Date.now() / 1000);
    const signed = `${base64url({ alg: "ES256", kid: "one", typ: "JWT" })}.${base64url({ iss: this.issuer, sub: "ann", exp: now + 300, groups: this.groups, ...claims })}`;
    return `${signed}.${sign("sha256", Buffer.from(signed), { key: this.key, dsaEncoding: "ieee-p1363" }).toString("base64url")}`;
  }
}
