// Histograms over powers of two, as SVG.

/**
 * A histogram. `values` has one number per bin, `first` and `last` are the bins shown, `top` the end of the scale, `form` writes a
 * bin's lower end and `say(bin, value)` what a bar stands for.
 */
function histogram({ values, first, last, top, paint, form, formValue, say, label }) {
  const [width, height, left, right, floor, ceiling] = [300, 150, 58, 8, 126, 10];
  const place = scale(first, last + 1, left, width - right);
  const heights = scale(0, top || 1, floor, ceiling);
  const picture = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  for (const share of [0.5, 1]) {
    const y = heights(top * share);
    picture.append(drawn("line", { class: "grid", x1: left, x2: width - right, y1: y, y2: y }),
      drawn("text", { x: left - 5, y: y + 3.5, "text-anchor": "end" }, formValue(top * share)));
  }
  const gap = Math.min(2, (place(1) - place(0)) * 0.2);
  for (let bin = first; bin <= last; bin += 1) {
    const value = values[bin] ?? 0;
    if (value === 0) continue;
    const y = Math.min(heights(value), floor - 1);
    const bar = drawn("rect", { x: place(bin) + gap / 2, y, width: place(bin + 1) - place(bin) - gap, height: floor - y, rx: 1 },
      drawn("title", {}, say(bin, value)));
    bar.style.fill = `var(--${paint})`;
    picture.append(bar);
  }
  picture.append(drawn("line", { x1: left, x2: width - right, y1: floor + 0.5, y2: floor + 0.5 }));
  const every = Math.max(1, Math.ceil((last - first + 1) / 5));
  for (let bin = first; bin <= last; bin += every) {
    picture.append(drawn("text", { x: place(bin), y: floor + 14, "text-anchor": bin === first ? "start" : "middle" }, form(2 ** bin)));
  }
  return picture;
}

/** The first and the last bin that any of some histograms uses. */
function binsUsed(all) {
  const used = all.flatMap((values) => [values.findIndex((value) => value > 0), values.length - 1]).filter((at) => at >= 0);
  return used.length ? [Math.min(...used), Math.max(...used)] : [0, 0];
}

/** Hole sizes: a panel per policy, at the peak or at the end, by count or by bytes. */
function holeSizes(host, policies) {
  let moment = "at_peak";
  let measure = "bytes";
  const panels = element("div", { class: "panels" });
  const render = () => {
    const states = policies.map((policy) => policy[moment] ?? policy.at_end);
    const all = states.map((state) => state.hole_sizes[measure]);
    const [first, last] = binsUsed(all);
    const form = measure === "bytes" ? roundBytes : count;
    panels.replaceChildren(...policies.map((policy, at) => element("div", { class: "panel" },
      element("h3", {}, policy.policy),
      element("p", {}, `${plural(states[at].holes, "hole")}, ${bytes(states[at].free)} free, longest ${bytes(states[at].longest_hole)}`),
      histogram({
        values: all[at], first, last, top: Math.max(1, ...all[at]), paint: `line-${policy.policy}`, form: roundBytes, formValue: form,
        say: (bin, value) => `${bytes(2 ** bin)} to ${bytes(2 ** (bin + 1))}: ${measure === "bytes" ? bytes(value) : plural(value, "hole")}`,
        label: `Holes of ${policy.policy} by length`,
      }))));
  };
  host.replaceChildren(element("div", { class: "bar" },
    choice("Moment", [["at_peak", "at the peak"], ["at_end", "at the end"]], moment, (chosen) => { moment = chosen; render(); }),
    choice("Measure", [["bytes", "bytes"], ["counts", "number"]], measure, (chosen) => { measure = chosen; render(); })), panels);
  render();
}

/** Sizes and lifetimes of blocks. */
function blockSizes(host, data) {
  const panel = (title, text, bins, measure, form, paint, unit) => {
    const [first, last] = binsUsed([bins[measure]]);
    return element("div", { class: "panel" }, element("h3", {}, title), element("p", {}, text), histogram({
      values: bins[measure], first, last, top: Math.max(1, ...bins[measure]), paint, form, formValue: measure === "bytes" ? roundBytes : count,
      say: (bin, value) => `${form(2 ** bin)} to ${form(2 ** (bin + 1))}${unit}: ${measure === "bytes" ? bytes(value) : plural(value, "block")}`,
      label: title,
    }));
  };
  host.replaceChildren(element("div", { class: "panels wide" },
    panel("Sizes, by number", "how many blocks of each size", data.sizes, "counts", roundBytes, "size-3", ""),
    panel("Sizes, by bytes", "how much was asked for in blocks of each size", data.sizes, "bytes", roundBytes, "size-3", ""),
    panel("Lifetimes in events", "how many blocks lived for so many events", data.lifetimes, "counts", count, "age-3", " events"),
    panel("Lifetimes in bytes", "how many blocks lived while so much was asked for", data.lifetimes_in_bytes, "counts", roundBytes, "age-3", "")));
}
