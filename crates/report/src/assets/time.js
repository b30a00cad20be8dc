// What the plots over time are drawn against: events, or the time at which they happened.

const SECOND = CHART.times.second;

/** When each event happened, in nanoseconds; as good as linear between the events whose times the page knows: the ends of
 * buckets, and the peak. */
class Clock {
  constructor({ width, start, ends, peak: [peak, peakTime] }, events) {
    this.times = [start, ...ends];
    this.events = this.times.map((_, bucket) => Math.min(events, bucket * width));
    const before = lastUpTo(this.events, peak);
    if (peak > this.events[before] && before + 1 < this.events.length) {
      this.events.splice(before + 1, 0, peak);
      this.times.splice(before + 1, 0, peakTime);
    }
  }

  at(event) {
    const from = Math.min(this.events.length - 2, lastUpTo(this.events, event));
    return scale(this.events[from], this.events[from + 1], this.times[from], this.times[from + 1])(event);
  }

  event(time) {
    const from = Math.min(this.times.length - 2, lastUpTo(this.times, time));
    const [start, end] = [this.times[from], this.times[from + 1]];
    const share = end > start ? Math.min(1, Math.max(0, (time - start) / (end - start))) : 0;
    return this.events[from] + share * (this.events[from + 1] - this.events[from]);
  }
}

/** The place of the last of ascending numbers that is not above a limit; 0 if all are. */
function lastUpTo(numbers, limit) {
  let [low, high] = [0, numbers.length];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (numbers[middle] <= limit) low = middle;
    else high = middle;
  }
  return low;
}

/** Returns marks between two times, in about `about` steps, and their texts. */
function timeMarks(from, to, about) {
  const raw = (to - from) / about;
  const days = Math.ceil(raw / (86_400 * SECOND)) * 86_400 * SECOND;
  const long = () => CHART.times.long_steps.map((step) => step * SECOND).find((step) => step >= raw) ?? days;
  const step = raw <= CHART.times.decimal_to_seconds * SECOND ? decimalStep(raw) : long();
  return steps(from, to, step).map((at) => ({ at, text: timeText(at, step, to) }));
}

const isLong = (time) => time >= CHART.times.long_from_seconds * SECOND;

/** A time as a mark: to the step, in the unit that suits the longest; from two minutes on in minutes and hours. */
function timeText(time, step, longest) {
  if (time === 0) return "0";
  if (isLong(longest) && step >= SECOND) return longTime(time);
  const [unit, name] = CHART.times.units.find(([unit]) => longest >= unit) ?? CHART.times.units.at(-1);
  return `${(time / unit).toFixed(Math.max(0, Math.ceil(Math.log10(unit / step) - 1e-9)))} ${name}`;
}

/** As in "2 min", "1 h 30 min", "3 d 6 h". */
function longTime(time) {
  let left = Math.round(time / SECOND);
  const parts = CHART.times.long_units.map(([unit, name]) => {
    const number = Math.floor(left / unit);
    left %= unit;
    return [number, name];
  });
  const first = Math.max(0, parts.findIndex(([number]) => number > 0));
  return parts.slice(first, first + 2).filter(([number]) => number > 0).map(([number, unit]) => `${grouped(number)} ${unit}`).join(" ");
}

/** A time as a reading. */
const momentOf = (time) => (isLong(time) ? longTime(time) : seconds(time / SECOND));

/** The part of a run that all plots over time show. Places on its axis are events, or nanoseconds. */
class View {
  #listeners = [];
  #pickers = [];

  constructor(events, clock) {
    this.events = Math.max(1, events);
    this.clock = clock;
    this.axis = "events";
    /** The event that was chosen; null where none can be. */
    this.moment = null;
    [this.from, this.to] = this.#ends();
  }

  #ends() {
    return [this.at(0), this.at(this.events)];
  }

  /** The title of the axis. */
  get title() {
    return this.axis === "time" ? "time since the first event" : "events so far";
  }

  /** Where on the axis an event is. */
  at(event) {
    return this.axis === "time" ? this.clock.at(event) : event;
  }

  /** The event at a place of the axis. */
  event(place) {
    return this.axis === "time" ? this.clock.event(place) : place;
  }

  /** Marks on the axis, and how each is written. */
  marks(about) {
    return this.axis === "time" ? timeMarks(this.from, this.to, about) : ticks(this.from, this.to, about).map((at) => ({ at, text: count(at) }));
  }

  /** An event as a reading. */
  say(event) {
    const time = this.clock === null ? "" : `, ${momentOf(this.clock.at(event))}`;
    return `event ${grouped(event)}${time}`;
  }

  /** Draws against something else: the same events. */
  drawAgainst(axis) {
    const shown = [this.from, this.to].map((place) => this.event(place));
    const wasWhole = this.isWhole;
    this.axis = axis;
    if (wasWhole) this.showAll();
    else this.show(...shown.map((event) => this.at(event)));
  }

  /** Chooses an event. */
  pick(event) {
    this.moment = Math.min(this.events, Math.max(0, Math.round(event)));
    for (const listener of this.#pickers) listener();
  }

  onPick(listener) {
    this.#pickers.push(listener);
  }

  onChange(listener) {
    this.#listeners.push(listener);
  }

  show(from, to) {
    const [first, last] = this.#ends();
    const least = Math.min(last - first, this.axis === "time" ? (last - first) / 20_000 : Math.max(8, this.events / 4000));
    const width = Math.min(last - first, Math.max(least, to - from));
    const start = Math.max(first, Math.min(last - width, (from + to - width) / 2));
    [this.from, this.to] = [start, start + width];
    for (const listener of this.#listeners) listener();
  }

  showAll() {
    this.show(...this.#ends());
  }

  get isWhole() {
    const [first, last] = this.#ends();
    return this.to - this.from >= last - first;
  }

  /** Makes the part shown shorter or longer, around a place. */
  zoom(factor, around = (this.from + this.to) / 2) {
    this.show(around - (around - this.from) * factor, around + (this.to - around) * factor);
  }

  move(share) {
    const width = this.to - this.from;
    this.show(this.from + share * width, this.to + share * width);
  }
}

/** Returns the buttons that choose the axis, events or time, if the trace has times. */
function axisChoice(view) {
  if (view.clock === null) return [];
  const buttons = [["events", "events"], ["time", "time"]];
  const made = choice("Against", buttons, view.axis, (axis) => view.drawAgainst(axis));
  view.onChange(() => [...made.children].forEach((button, at) => button.setAttribute("aria-pressed", String(buttons[at][0] === view.axis))));
  return [made];
}
