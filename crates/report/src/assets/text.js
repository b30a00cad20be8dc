// Elements and numbers, as people read them. Text from a trace is only ever set as text.

/** An element with attributes and children; strings become text. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

/** An element of an SVG picture. */
function drawn(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const byId = (id) => document.getElementById(id);

/** A whole number with its thousands apart. */
const grouped = (number) => Math.round(number).toString().replace(/\B(?=(\d{3})+$)/g, ",");

/** Three significant digits, without an exponent. */
function short(number) {
  if (number === 0) return "0";
  const magnitude = Math.floor(Math.log10(Math.abs(number)));
  return number.toFixed(Math.min(12, Math.max(0, 2 - magnitude)));
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/** A number of bytes in the unit that suits it. */
function bytes(number) {
  const power = number < 1024 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log2(number) / 10));
  return `${power === 0 ? grouped(number) : short(number / 1024 ** power)} ${UNITS[power]}`;
}

/** A time in the unit that suits it. */
function seconds(time) {
  const [factor, unit] = time >= 1 ? [1, "s"] : time >= 1e-3 ? [1e3, "ms"] : [1e6, "µs"];
  return `${short(time * factor)} ${unit}`;
}

/** A count in thousands, millions, … where that is shorter. */
function count(number) {
  const { grouped_below: groupedBelow, powers } = CHART.counts;
  const power = number < groupedBelow ? 0 : Math.min(powers.length - 1, Math.floor(Math.log10(number) / 3));
  return power === 0 ? grouped(number) : trimmed(number / 1000 ** power) + powers[power];
}

/** Three significant digits without zeros at the end. */
const trimmed = (number) => short(number).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");

/** As bytes(), without zeros at the end: for marks of an axis. */
const roundBytes = (number) => bytes(number).replace(/(\.\d*?)0+ /, "$1 ").replace(". ", " ");

const percent = (share) => (share === null || share === undefined ? "–" : `${short(100 * share)} %`);
const orDash = (value, form) => (value === null || value === undefined ? "–" : form(value));
const plural = (number, word) => `${grouped(number)} ${word}${number === 1 ? "" : "s"}`;
