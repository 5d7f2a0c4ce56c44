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

/** A time in the reader's zone, with seconds. */
export function time(value) {
  if (value === null || value === undefined || value === "") return NOTHING;
  const at = moment(value);
  if (Number.isNaN(at.getTime())) return String(value);
  const pad = (number) => String(number).padStart(2, "0");
  const day = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
  return `${day} ${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
}

export function ago(value) {
  if (value === null || value === undefined || value === "") return NOTHING;
  const seconds = (Date.now() - moment(value).getTime()) / 1000;
  return seconds < 0 ? `in ${duration(-seconds)}` : `${duration(Math.floor(seconds))} ago`;
}

export const seconds = (value) => moment(value).getTime() / 1000;

export const plural = (number, word, words = `${word}s`) => `${count(number)} ${number === 1 ? word : words}`;
