// Waiting for one's turn, with what Node 18 and later has alone.
//
// take() asks weir before something is done that others limit, or that many
// programs share. get() asks an HTTP server, and comes back when it says.

import http from 'node:http';
import { json } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';

// Denied: there is nothing to wait for, or no time. retryAfter is in seconds.
export class Denied extends Error {
  constructor(text, retryAfter) {
    super(text);
    this.retryAfter = retryAfter;
  }
}

// delay is what the other side asked for and some jitter on top, never less.
export function delay(tries, after = 0) {
  return after + Math.random() * Math.min(10, Math.max(after / 10, 0.1 * 2 ** Math.min(tries, 10)));
}

// post is the status and the answer of weir, at http://HOST:PORT, https:// or
// unix:///PATH.
async function post(weir, body, signal) {
  if (!weir.startsWith('unix://')) {
    const response = await fetch(`${weir}/v1/check`, { method: 'POST', body, signal });
    return [response.status, await response.json()];
  }
  return new Promise((resolve, reject) => {
    http
      .request({ socketPath: weir.slice('unix://'.length), path: '/v1/check', method: 'POST', signal }, (response) => {
        json(response).then((answer) => resolve([response.statusCode, answer]), reject);
      })
      .on('error', reject)
      .end(body);
  });
}

// take returns when weir lets cost events of these entries pass. It is true, or
// false when weir could not be asked: the caller goes on or not. Permits free
// themselves by their ttl.
export async function take(weir, domain, entries, { cost = 1, patience = 30, timeout = 1 } = {}) {
  const descriptor = { entries: Object.entries(entries).map(([key, value]) => ({ key, value })), cost };
  const body = JSON.stringify({ domain, descriptors: [descriptor] });
  const deadline = performance.now() + patience * 1000;
  for (let tries = 0; ; tries++) {
    let status, answer;
    try {
      [status, answer] = await post(weir, body, AbortSignal.timeout(timeout * 1000));
    } catch {
      return false;
    }
    if (status === 503) return false; // weir can't decide
    if (status !== 200 && status !== 429) throw new Error(`weir: ${status} ${answer.detail}`);
    if (answer.allowed) {
      await sleep((answer.hold_seconds ?? 0) * 1000);
      return true;
    }
    if (answer.decisions[answer.decisive].outcome === 'impossible') throw new Denied(`a cost of ${cost} can never pass`);
    const pause = delay(tries, answer.retry_after_seconds ?? 1);
    if (performance.now() + pause * 1000 > deadline) throw new Denied('denied', pause);
    await sleep(pause * 1000 + 1); // timers may come a millisecond early
  }
}

// get fetches, and comes back after 429 and 503; what is not idempotent (POST)
// after 429 only. The body must be one that can be sent twice: no stream.
export async function get(url, options = {}, { patience = 30, most = 4 } = {}) {
  const safe = ['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE'].includes((options.method ?? 'GET').toUpperCase());
  const deadline = performance.now() + patience * 1000;
  for (let tries = 0; ; tries++) {
    const response = await fetch(url, options);
    const again = response.status === 429 || (response.status === 503 && safe);
    const pause = delay(tries, retryAfter(response.headers)) * 1000;
    if (!again || tries === most - 1 || performance.now() + pause > deadline) return response;
    await response.body?.cancel();
    await sleep(pause + 1);
  }
}

// retryAfter is the seconds of Retry-After, which has seconds or a date of the
// server's clock.
function retryAfter(headers) {
  const field = headers.get('Retry-After') ?? '';
  if (/^\d+$/.test(field)) return Number(field);
  const seconds = (Date.parse(field) - Date.parse(headers.get('Date'))) / 1000;
  return Math.max(seconds, 0) || 0;
}
