// The blocks that keep holes apart, in sentences and in a table.

/** The share of the run that an event number is. */
const shareOfRun = (event, events) => percent(Math.ceil((1000 * (event + 1)) / Math.max(1, events)) / 1000);

/** What the group says that keeps most apart. */
function groupSentence(group, events) {
  const blocks = group.pins === 1 ? "A pin" : `${grouped(group.pins)} pins`;
  const size = group.size <= 1 ? "of 1 byte" : `of ${grouped(group.size / 2 + 1)} to ${bytes(group.size)}`;
  const keep = group.pins === 1 ? "keeps" : "keep";
  const born = group.born_by === null ? "" : `, nine in ten of them asked for in the first ${shareOfRun(group.born_by, events)} of the run,`;
  const never = group.never_freed === 0 ? "" : `; ${grouped(group.never_freed)} of them are never freed`;
  return `${blocks} ${size}${born} ${keep} ${bytes(group.kept_apart)} of holes from joining${never}.`;
}

/** One policy at a time. */
function pinned(host, policies, events) {
  const told = policies.filter((policy) => policy.pins !== null);
  if (told.length === 0) {
    host.replaceChildren(element("p", {}, "Nothing was ever asked for, so there are no holes."));
    return;
  }
  const body = element("div");
  const start = told.reduce((least, policy) => (policy.peak_heap < least.peak_heap ? policy : least));
  const show = (policy) => {
    const { pins, at_peak: peak } = policy;
    const finding = pins.count === 0
      ? `Nothing: when the heap under ${nameOf(policy)} was longest, it had ${plural(peak.holes, "hole")}.`
      : `When the heap under ${nameOf(policy)} was longest, ${bytes(peak.free)} were free in ${plural(peak.holes, "hole")}, the longest ${
        bytes(peak.longest_hole)}. ${plural(pins.count, "pin")} kept ${bytes(pins.kept_apart)} apart.`;
    body.replaceChildren(element("p", { class: "finding" }, finding));
    if (pins.count === 0) return;
    body.append(element("ul", { class: "findings" }, ...pins.groups.slice(0, 3).map((group) => element("li", {}, groupSentence(group, events)))));
    body.append(element("p", { class: "note" }, `The ${grouped(pins.rows.length)} that keep most apart; together they keep ${
      bytes(pins.rows_kept_apart)}. The block is the oldest of each.`), pinTable(pins.rows, events));
  };
  host.replaceChildren(element("div", { class: "bar" }, choice("Policy", told.map((policy) => [policy, policy.policy]), start, show)), body);
  show(start);
}

function pinTable(rows, events) {
  const number = (name, value, form, more = {}) => ({ name, value, show: (row) => orDash(value(row), form), descending: true, ...more });
  const died = (row) => row.died ?? events;
  const columns = [
    number("Keeps apart", (row) => row.kept_apart, bytes, { measure: true }),
    number("Hole in front", (row) => row.before, bytes),
    number("Hole behind", (row) => row.behind, bytes),
    number("Pin", (row) => row.bytes, bytes),
    number("Blocks", (row) => row.blocks, grouped),
    number("Block", (row) => row.block, grouped, { descending: false }),
    number("Its size", (row) => row.size, bytes),
    number("Born at event", (row) => row.born, grouped, { descending: false }),
    { name: "Lives for", value: (row) => (row.born === null ? null : died(row) - row.born), descending: true,
      show: (row) => (row.born === null ? "–" : row.died === null ? "ever" : `${count(row.died - row.born)} events`) },
    number("Address", (row) => row.offset, (value) => `0x${value.toString(16)}`, { descending: false }),
  ];
  if (rows.some((row) => row.site)) columns.push({ name: "Asked for by", value: (row) => row.site ?? "", show: (row) => row.site || "–", text: true });
  return element("div", { class: "scroll tall" }, sortable({ label: "Pins", columns, rows }));
}
