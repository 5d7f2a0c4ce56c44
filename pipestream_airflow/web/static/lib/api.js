// The HTTP API of the plugin, relative to Airflow's base so that a path prefix works.
import { useCallback, useEffect, useRef, useState } from "./react.js";

const BASE = new URL("pipestream/api/", document.baseURI);
const AIRFLOW = new URL("api/v2/", document.baseURI);

/** An answer that is no success: `message` is the server's reason, `problems` those of a graph. */
export class ApiError extends Error {
  constructor(status, message, problems = []) {
    super(message);
    this.status = status;
    this.problems = problems;
  }
}

export const path = (parts, ...values) =>
  String.raw({ raw: parts }, ...values.map((value) => encodeURIComponent(value)));

/** Call Airflow's own API. */
export const callAirflow = (method, route, options = {}) => call(method, route, { ...options, base: AIRFLOW });

export async function call(method, route, { query, body, text, signal, base = BASE } = {}) {
  const url = new URL(route, base);
  for (const [name, value] of Object.entries(query ?? {})) {
    for (const each of [value].flat()) {
      if (each !== undefined && each !== null && each !== "") url.searchParams.append(name, each);
    }
  }
  const headers = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (text !== undefined) headers["Content-Type"] = "application/yaml";
  let answer;
  try {
    answer = await fetch(url, { method, headers, signal, body: body === undefined ? text : JSON.stringify(body) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "Airflow's API server does not answer");
  }
  const content = await answer.text();
  let value = null;
  try {
    value = content ? JSON.parse(content) : null;
  } catch {
    value = null;
  }
  if (!answer.ok) throw new ApiError(answer.status, reasonOf(answer, value), value?.problems ?? []);
  return value;
}

function reasonOf(answer, value) {
  if (typeof value?.detail === "string") return value.detail;
  if (value?.detail) return JSON.stringify(value.detail);
  if (answer.status === 401) return "your session has ended; sign in again";
  if (answer.status === 403) return "you do not have the right to do this";
  return `the server answered ${answer.status}`;
}

/**
 * Ask for something now and every `every` seconds. The last answer stays while a later question fails; with `keep`, also
 * while another question is asked in its place.
 * @returns {{data, error, loading, reload}}
 */
export function useQuery(route, { query, every = 0, enabled = true, keep = false } = {}) {
  const [state, setState] = useState({ key: null, data: null, error: null });
  const key = enabled ? route + JSON.stringify(query ?? {}) : null;
  const latest = useRef(key);
  latest.current = key;

  const load = useCallback(
    async (signal) => {
      if (key === null) return;
      try {
        const data = await call("GET", route, { query, signal });
        if (latest.current === key) setState({ key, data, error: null });
      } catch (error) {
        if (error.name === "AbortError" || latest.current !== key) return;
        setState((before) => ({ key, data: before.key === key ? before.data : null, error }));
      }
    },
    [key],
  );

  useEffect(() => {
    if (key === null) return undefined;
    const abort = new AbortController();
    let timer = 0;
    const again = async () => {
      // A page that nobody looks at asks nothing.
      if (!document.hidden) await load(abort.signal);
      if (every && !abort.signal.aborted) timer = setTimeout(again, every * 1000);
    };
    load(abort.signal).then(() => {
      if (every && !abort.signal.aborted) timer = setTimeout(again, every * 1000);
    });
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [key, every, load]);

  const current = state.key === key ? state : { data: keep ? state.data : null, error: null };
  return {
    data: current.data,
    error: current.error,
    loading: key !== null && current.data === null && current.error === null,
    reload: useCallback(() => load(), [load]),
  };
}

/** Something that changes state: `run(...)` calls it, and `busy` and `error` say how it goes. */
export function useAction(work) {
  const [state, setState] = useState({ busy: false, error: null, done: null });
  const run = async (...values) => {
    setState({ busy: true, error: null, done: null });
    try {
      const done = await work(...values);
      setState({ busy: false, error: null, done: done ?? true });
      return done;
    } catch (error) {
      setState({ busy: false, error, done: null });
      return undefined;
    }
  };
  return { ...state, run, reset: () => setState({ busy: false, error: null, done: null }) };
}
