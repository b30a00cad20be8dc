// Rows and lines that are so large that the others could not be told apart beside them.

/** Outliers are more than this many times the median. */
const FAR = 2.5;

/** Returns the rows whose value is far above the median. */
function outliers(rows, valueOf) {
  const sorted = rows.map(valueOf).sort((a, b) => a - b);
  const middle = sorted[(sorted.length - 1) >> 1] ?? 0;
  return rows.filter((row) => valueOf(row) > FAR * middle);
}

/** A button that shows what is far out in full, if anything is. */
function outlierToggle(number, show) {
  if (number === 0) return [];
  let isShown = false;
  const button = element("button", { type: "button", class: "quiet", "aria-pressed": "false", onclick: () => {
    isShown = !isShown;
    button.setAttribute("aria-pressed", String(isShown));
    show(isShown);
  } }, `Scale to ${plural(number, "outlier")}`);
  return [button];
}
