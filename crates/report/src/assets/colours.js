// Colours come from the style sheet, so that there is one place for both themes. Lines differ by their dashes too.

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** The dashes of a line; none of an unbroken one. */
const dashes = (name) => (/\d/.test(colour(`dash-${name}`)) ? colour(`dash-${name}`).split(" ").map(Number) : []);

/** The red, green and blue of "#rrggbb". */
const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

/** A short piece of a line, as a key to it. */
function swatch(name, dash, width = 2) {
  const line = drawn("line", { x1: 0, y1: 5, x2: 22, y2: 5, "stroke-width": width, "stroke-dasharray": dash.join(" ") });
  line.style.stroke = `var(--${name})`;
  return drawn("svg", { width: 22, height: 10, "aria-hidden": "true" }, line);
}

/** A filled square, as a key to an area. */
function square(name) {
  const rect = drawn("rect", { width: 11, height: 11, rx: 2 });
  rect.style.fill = `var(--${name})`;
  return drawn("svg", { width: 11, height: 11, "aria-hidden": "true" }, rect);
}

const redraws = [];

/** Draws now, and again when the theme or the width of the window changes. */
function keepDrawn(draw) {
  redraws.push(draw);
  draw();
}

function redrawAll() {
  for (const draw of redraws) draw();
}

/** The button that goes from the system's colours to light to dark. */
function setUpTheme(button) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const names = ["Auto", "Light", "Dark"];
  let choice = 0;
  const apply = () => {
    const dark = choice === 0 ? system.matches : choice === 2;
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    button.textContent = names[choice];
    button.setAttribute("aria-label", `Colours: ${["as the system has them", "light", "dark"][choice]}`);
    redrawAll();
  };
  button.addEventListener("click", () => {
    // The first click shows a difference.
    choice = choice === 0 ? (system.matches ? 1 : 2) : choice === (system.matches ? 1 : 2) ? (system.matches ? 2 : 1) : 0;
    apply();
  });
  system.addEventListener("change", apply);
  addEventListener("beforeprint", () => { document.documentElement.dataset.theme = "light"; redrawAll(); });
  addEventListener("afterprint", apply);
  apply();
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) requestAnimationFrame(redrawAll);
    width = innerWidth;
  });
}

/** Buttons of which one is pressed. */
function choice(label, options, chosen, choose) {
  const buttons = options.map(([value, text]) =>
    element("button", {
      type: "button",
      "aria-pressed": String(value === chosen),
      onclick: () => {
        for (const other of buttons) other.setAttribute("aria-pressed", String(other === buttons[options.findIndex(([v]) => v === value)]));
        choose(value);
      },
    }, text));
  return element("div", { class: "choice", role: "group", "aria-label": label }, `${label} `, ...buttons);
}
