// A registry of models on loopback that answers as Hugging Face's does: listing, HEAD with hashes,
// large files from another host, ranges. What it does wrong is set by the tests in `faults`.
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync, readdirSync } from 'node:fs';
import { createServer } from 'node:http';
import { createSecureServer } from 'node:http2';
import { join } from 'node:path';
import { Readable } from 'node:stream';

const largeBytes = 1 << 20; // from here on a file has a SHA-256 and comes from the other host

const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');
const gitHash = (bytes) =>
  createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest('hex');

function treeEntry([path, bytes]) {
  const entry = { type: 'file', path, size: bytes.length, oid: gitHash(bytes) };
  if (bytes.length < largeBytes) return entry;
  return { ...entry, lfs: { oid: sha256(bytes), size: bytes.length, pointerSize: 134 } };
}

function listen(server, scheme) {
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve(`${scheme}://127.0.0.1:${server.address().port}`));
  });
}

export class FakeRegistry {
  #repositories = new Map();
  #servers = [];
  // { host: 'registry' or 'cdn', method, path, range, authorized, sent, version }
  requests = [];
  faults = {
    token: '', // demanded of everybody
    gated: false,
    busy: {}, // file -> how often 429 comes first
    breakAt: {}, // file -> bytes after which the connection is destroyed, once
    wrong: new Set(), // files with one bit changed
    bytesPerSecond: 0, // of large files, each connection; 0: at once
  };

  // With a certificate, { key, cert }, it is on https with HTTP/2; else on http.
  static async start(certificate = null) {
    const fake = new FakeRegistry();
    for (const host of ['registry', 'cdn']) {
      const answer = (request, response) => fake.#answer(host, request, response);
      const server = certificate ? createSecureServer(certificate, answer) : createServer(answer);
      fake.#servers.push(server);
      fake[host] = await listen(server, certificate ? 'https' : 'http');
    }
    fake.cdn = fake.cdn.replace('127.0.0.1', 'localhost'); // another name is another host to all
    return fake;
  }

  async stop() {
    for (const server of this.#servers) {
      server.closeAllConnections?.(); // those of HTTP/2 end with the client
      await new Promise((resolve) => server.close(resolve));
    }
  }

  // Serves the files of a folder as a repository; gives its commit.
  add(repository, folder, names = readdirSync(folder)) {
    return this.addFiles(repository, names.map((name) => [name, readFileSync(join(folder, name))]));
  }

  // The same of [name, bytes] pairs.
  addFiles(repository, entries) {
    const files = new Map(entries);
    const names = [...files.keys()];
    const commit = createHash('sha1').update(repository + names.join()).digest('hex');
    this.#repositories.set(repository, { commit, files });
    return commit;
  }

  bytesSent(name) {
    const sent = this.requests.filter((r) => r.method === 'GET' && r.path.endsWith(`/${name}`));
    return sent.reduce((sum, request) => sum + request.sent, 0);
  }

  #answer(host, request, response) {
    const url = new URL(request.url, this.registry);
    const path = decodeURIComponent(url.pathname);
    const record = {
      host,
      method: request.method,
      path,
      range: request.headers.range ?? '',
      authorized: Boolean(request.headers.authorization),
      sent: 0,
      version: request.httpVersion,
    };
    this.requests.push(record);
    if (host === 'cdn') return this.#answerAsCdn(url, request, response, record);
    const refuse = (status, headers = {}) => response.writeHead(status, headers).end('refused');
    if (this.faults.gated) return refuse(403, { 'X-Error-Code': 'GatedRepo' });
    if (this.faults.token && request.headers.authorization !== `Bearer ${this.faults.token}`) {
      return refuse(401);
    }
    const infos = path.match(/^\/api\/models\/(.+?)\/paths-info\/([^/]+)$/);
    const listing = path.match(/^\/api\/models\/(.+?)\/revision\/(.+)$/);
    const tree = path.match(/^\/api\/models\/(.+?)\/tree\/([^/]+)$/);
    const file = path.match(/^\/(.+?)\/resolve\/([^/]+)\/(.+)$/);
    const asked = infos ?? listing ?? tree ?? file;
    const repository = this.#repositories.get(asked?.[1]);
    if (!repository) return refuse(404, { 'X-Error-Code': 'RepoNotFound' });
    const revision = asked[2];
    if (revision !== 'main' && revision !== repository.commit) {
      return refuse(404, { 'X-Error-Code': 'RevisionNotFound' });
    }
    const sendJson = (value) => {
      response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(value));
    };
    if (listing) {
      const siblings = [...repository.files.keys()].map((rfilename) => ({ rfilename }));
      return sendJson({ id: listing[1], sha: repository.commit, siblings });
    }
    // Hugging Face's clients ask for it.
    if (tree) return sendJson([...repository.files].map(treeEntry));
    if (infos) {
      return void this.#answerInfos(repository, request).then(sendJson);
    }
    return this.#answerFile(repository, file, request, response, record);
  }

  // Entries of the files that the body names.
  async #answerInfos(repository, request) {
    const { paths } = await new Response(Readable.toWeb(request)).json();
    return [...repository.files].filter(([name]) => paths.includes(name)).map((file) =>
      ({ ...treeEntry(file), lastCommit: { id: repository.commit } }));
  }

  #answerFile(repository, [, id, , name], request, response, record) {
    const bytes = repository.files.get(name);
    if (!bytes) {
      return response.writeHead(404, { 'X-Error-Code': 'EntryNotFound' }).end();
    }
    if ((this.faults.busy[name] ?? 0) > 0) {
      this.faults.busy[name] -= 1;
      return response.writeHead(429, { 'Retry-After': '1' }).end();
    }
    if (bytes.length < largeBytes) {
      const headers = { ETag: `"${gitHash(bytes)}"`, 'X-Repo-Commit': repository.commit };
      return this.#send(name, bytes, headers, request, response, record);
    }
    const body = 'Found. Redirecting';
    response.writeHead(302, {
      'X-Repo-Commit': repository.commit,
      'X-Linked-Etag': `"${sha256(bytes)}"`,
      'X-Linked-Size': String(bytes.length),
      ETag: `"${sha256(bytes)}"`,
      'Content-Length': String(body.length),
      Location: `${this.cdn}/${id}/${name}?signature=1`,
    });
    return response.end(request.method === 'HEAD' ? undefined : body);
  }

  #answerAsCdn(url, request, response, record) {
    const [, owner, id, ...rest] = url.pathname.split('/');
    const name = rest.join('/');
    const bytes = this.#repositories.get(`${owner}/${id}`)?.files.get(name);
    if (!bytes || url.searchParams.get('signature') !== '1') return response.writeHead(403).end();
    return this.#send(name, bytes, { ETag: `"${sha256(bytes)}"` }, request, response, record);
  }

  async #send(name, bytes, headers, request, response, record) {
    let body = bytes;
    if (this.faults.wrong.has(name)) {
      body = Buffer.from(bytes);
      body[body.length >> 1] ^= 1;
    }
    const [, first, last] = request.headers.range?.match(/^bytes=(\d+)-(\d*)$/) ?? [];
    const start = Number(first ?? 0);
    const part = body.subarray(start, last ? Number(last) + 1 : body.length);
    const end = start + part.length - 1;
    const range = { 'Content-Range': `bytes ${start}-${end}/${body.length}` };
    response.writeHead(request.headers.range ? 206 : 200, {
      ...headers,
      ...(request.headers.range ? range : {}),
      'Accept-Ranges': 'bytes',
      'Content-Length': String(part.length),
    });
    if (request.method === 'HEAD') return response.end();
    response.setMaxListeners(0);
    const stopAt = this.faults.breakAt[name] ?? Infinity;
    delete this.faults.breakAt[name];
    const perSecond = bytes.length < largeBytes ? 0 : this.faults.bytesPerSecond;
    const pieceBytes = perSecond ? perSecond / 20 : 256 * 1024;
    for (let at = 0; at < part.length && !response.destroyed; at += pieceBytes) {
      if (at >= stopAt) return response.destroy();
      const piece = part.subarray(at, at + pieceBytes);
      record.sent += piece.length;
      if (!response.write(piece)) {
        await Promise.race([once(response, 'drain'), once(response, 'close')]);
      }
      if (perSecond) await new Promise((resolve) => setTimeout(resolve, 50));
    }
    return response.end();
  }
}
