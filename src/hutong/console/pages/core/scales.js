/**
 * Round numbers for axes.
 *
 * Knows no elements.
 */

const STEPS = [1, 2, 2.5, 5, 10];
const TIME_STEPS_MS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400].map((s) => s * 1_000);

/**
 * Rising round numbers from zero; the last is `max` or a little more.
 * @param {number} max
 * @param {number} count about so many steps
 */
export function ticks(max, count) {
  if (!(max > 0)) return [0, 1];
  const rough = max / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * (STEPS.find((one) => one * power >= rough * (1 - 1e-9)) ?? 10);
  const levels = Math.ceil(max / step - 1e-9);
  return Array.from({ length: levels + 1 }, (_, index) => Number((index * step).toPrecision(12)));
}

/**
 * Round moments between two.
 * @param {number} from_ms
 * @param {number} to_ms
 * @param {number} count_max
 */
export function timeTicks(from_ms, to_ms, count_max) {
  const rough = (to_ms - from_ms) / count_max;
  const day_ms = 86_400_000;
  const step = TIME_STEPS_MS.find((one) => one >= rough) ?? Math.ceil(rough / day_ms) * day_ms;
  const moments = [];
  for (let moment = Math.ceil(from_ms / step) * step; moment <= to_ms; moment += step) moments.push(moment);
  return moments;
}

/**
 * The one of rising numbers that is nearest to another.
 * @param {readonly number[]} rising at least one
 * @param {number} wanted
 */
export function nearest(rising, wanted) {
  let best = /** @type {number} */ (rising[0]);
  for (const one of rising) if (Math.abs(one - wanted) < Math.abs(best - wanted)) best = one;
  return best;
}
