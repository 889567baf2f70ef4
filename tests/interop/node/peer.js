// A client of node-redlock, of its fourth or fifth version, that does what it is told.
//
//     node peer.js --redis HOST:PORT[,HOST:PORT...] --client redlock4|redlock5
//
// It reads one command a line, its words between tabs, and answers each, in their order, with a line of JSON:
//
//     ID VERB NAME [WORD...]
//     {"id":1,"result":"4ba2..."}
//     {"id":2,"error":"LockError","message":"..."}
//
// The first line of all is {"id":0,"version":VERSION}. The end of the input ends the program at once, and nothing is
// released. Times are in milliseconds:
//
//     try NAME TTL            its token, or null where somebody has the lock
//     wait NAME TTL WITHIN    the same, by the client's own waiting
//     adopt NAME TTL TOKEN    from now on the token is the one that this program holds the lock with
//     extend NAME TTL         to this TTL
//     release NAME
//     count NAME TTL KEY N PAUSE
//                             N times: waits for the lock, reads a number at KEY, pauses, writes the next one, releases
//
// It does not say whether a lock is still its own: that is for its local clock.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

const require = createRequire(import.meta.url);
const { Redis } = require("ioredis");

const LONG = 60_000;
// How long it pauses by default between two tries, and at the most by how much more or less.
const PAUSE = 200;

/** What differs between the versions, each with the methods of this one. */
const VERSIONS = {
  redlock4(servers) {
    const Redlock = require("redlock4");
    const redlock = new Redlock(servers, { retryCount: 0 });
    return {
      version: version("redlock4"),
      onFault: (heard) => redlock.on("clientError", heard),
      // It takes a 0 there for the default.
      acquire: (name, ttl, retries) => redlock.acquireWithOptions(name, ttl, retries ? { retryCount: retries } : {}),
      adopt: (name, ttl, token) => new Redlock.Lock(redlock, name, token, Date.now() + ttl, 1, 0),
      extend: (lock, ttl) => lock.extend(ttl),
      release: (lock) => lock.unlock(),
      isBusy: (error) => error instanceof Redlock.LockError,
    };
  },
  redlock5(servers) {
    const { default: Redlock, Lock, ExecutionError, ResourceLockedError } = require("redlock5");
    const redlock = new Redlock(servers, { retryCount: 0 });
    return {
      version: version("redlock5"),
      onFault: (heard) => redlock.on("error", (error) => error instanceof ResourceLockedError || heard(error)),
      acquire: (name, ttl, retries) => redlock.acquire([name], ttl, { retryCount: retries }),
      adopt: (name, ttl, token) => new Lock(redlock, [name], token, [], Date.now() + ttl),
      extend: (lock, ttl) => lock.extend(ttl),
      release: (lock) => lock.release(),
      isBusy: (error) => error instanceof ExecutionError,
    };
  },
};

function version(name) {
  // Not every package lets its own description be required.
  const text = readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url), "utf8");
  return JSON.parse(text).version.replace(/^v/, "");
}

class Locks {
  constructor(redis, client) {
    this.redis = redis;
    this.client = client;
    this.held = new Map();
    // What went wrong on the way to the server: its votes do not tell that from a lock that somebody has.
    this.fault = null;
    client.onFault((error) => (this.fault = error));
  }

  async run(verb, name, words) {
    const [ttl, ...rest] = [Number(words[0]), ...words.slice(1)];
    switch (verb) {
      case "try":
        return this.acquired(name, ttl, 0);
      case "wait":
        return this.acquired(name, ttl, Math.ceil(Number(rest[0]) / PAUSE));
      case "adopt":
        this.held.set(name, this.client.adopt(name, ttl, rest[0]));
        return true;
      case "extend":
        this.held.set(name, await this.client.extend(this.held.get(name), ttl));
        return true;
      case "release":
        await this.client.release(this.held.get(name));
        return true;
      case "count":
        return this.count(name, ttl, rest[0], Number(rest[1]), Number(rest[2]));
      default:
        throw new Error(`no verb is called ${verb}`);
    }
  }

  async acquired(name, ttl, retries) {
    try {
      const lock = await this.client.acquire(name, ttl, retries);
      this.held.set(name, lock);
      return lock.value;
    } catch (error) {
      if (!this.client.isBusy(error)) throw error;
      return null;
    }
  }

  async count(name, ttl, key, times, pause) {
    for (; times > 0; times--) {
      const lock = await this.client.acquire(name, ttl, LONG / PAUSE);
      const number = Number(await this.redis.get(key));
      await sleep(pause);
      await this.redis.set(key, number + 1);
      await this.client.release(lock);
    }
    return true;
  }
}

function say(line) {
  process.stdout.write(JSON.stringify(line) + "\n");
}

async function answer(locks, [id, verb, name, ...words]) {
  locks.fault = null;
  try {
    const result = await locks.run(verb, name, words);
    if (locks.fault) throw locks.fault;
    say({ id: Number(id), result });
  } catch (error) {
    const said = locks.fault ?? error;
    say({ id: Number(id), error: said.name, message: said.message });
  }
}

const given = {};
for (let i = 2; i < process.argv.length; i += 2) given[process.argv[i]] = process.argv[i + 1];
const servers = given["--redis"].split(",").map((address) => {
  const [host, port] = address.split(":");
  return new Redis(Number(port), host);
});
await Promise.all(servers.map((server) => server.ping()));
const client = VERSIONS[given["--client"]](servers);
const locks = new Locks(servers[0], client);
say({ id: 0, version: client.version });
const lines = createInterface({ input: process.stdin });
lines.on("close", () => process.exit(0));
let last = Promise.resolve();
lines.on("line", (line) => (last = last.then(() => answer(locks, line.split("\t")))));
