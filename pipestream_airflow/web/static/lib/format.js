// Numbers and times as people read them.
const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });

export const NOTHING = "–";

export const count = (value) => (value === null || value === undefined ? NOTHING : WHOLE.format(value));

/** A number with at most four characters, for a box of the picture. */
export const short = (value) => (value === null || value === undefined ? NOTHING : SHORT.format(value));

export function rate(perSecond) {
  if (perSecond === null || perSecond === undefined) return NOTHING;
  if (perSecond === 0) return "0/s";
  if (perSecond < 0.95) return `${SHORT.format(perSecond * 60)}/min`;
  return `${SHORT.format(perSecond)}/s`;
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return NOTHING;
  if (seconds < 1) return seconds === 0 ? "0 s" : `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  if (minutes < 48 * 60) return [`${Math.floor(minutes / 60)} h`, minutes % 60 ? `${minutes % 60} min` : ""].join(" ").trim();
  return `${Math.round(minutes / 1440)} d`;
}

export function bytes(size) {
  if (size === null || size === undefined) return NOTHING;
  const units = ["B", "KB", "MB", "GB", "TB"];
  let at = 0;
  while (size >= 1000 && at < units.length - 1) {
    size /= 1000;
    at += 1;
  }
  return `${at ? size.toFixed(1) : size} ${units[at]}`;
}

const moment = (value) => (typeof value === "number" ? new Date(value * 1000) : new Date(value));

/** The zone that Airflow shows times in: the one that was chosen in its navigation, else the browser's. */
export function timezone() {
  try {
    return JSON.parse(localStorage.getItem("timezone")) ?? undefined;
  } catch {
    return undefined;
  }
}

const PARTS = { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit" };
const clocks = new Map();

/** Writes times as Airflow does: Swedish is the locale whose times are ISO 8601. */
function clock(zone) {
  if (!clocks.has(zone)) clocks.set(zone, new Intl.DateTimeFormat("sv-SE", { ...PARTS, timeZone: zone }));
  return clocks.get(zone);
}

/** A time in the zone of Airflow's pages, with seconds. */
export function time(value) {
  if (value === null || value === undefined || value === "") return NOTHING;
  const at = moment(value);
  return Number.isNaN(at.getTime()) ? String(value) : clock(timezone()).format(at);
}

export function ago(value) {
  if (value === null || value === undefined || value === "") return NOTHING;
  const seconds = (Date.now() - moment(value).getTime()) / 1000;
  return seconds < 0 ? `in ${duration(-seconds)}` : `${duration(Math.floor(seconds))} ago`;
}

export const seconds = (value) => moment(value).getTime() / 1000;

export const plural = (number, word, words = `${word}s`) => `${count(number)} ${number === 1 ? word : words}`;
