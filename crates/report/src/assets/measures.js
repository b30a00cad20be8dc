// The measures of call sites.

/** How each measure is named and shown. What is held is shown first, because a moment can be chosen for it. */
const MEASURES = {
  held: ["Held at peak", bytes],
  leaked: ["Never freed", bytes],
  temporary: ["Temporary blocks", grouped],
  calls: ["Requests", grouped],
  churn: ["Requested bytes", bytes],
  rounding: ["Rounding", bytes],
};
