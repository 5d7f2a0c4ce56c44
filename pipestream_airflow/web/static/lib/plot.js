// Plots over time, by uPlot. It is loaded when the first plot is shown: it fails at import in odd locales.
import { Chakra, html, useEffect, useRef, useState } from "./react.js";
import { short, time, timezone } from "./format.js";

const { Box, Text } = Chakra;
const COLOURS = ["blue", "green", "orange", "purple", "cyan", "pink", "red", "teal", "yellow"];
const WHOLE_STEPS = Array.from({ length: 16 }, (_, power) => [1, 2, 5].map((step) => step * 10 ** power)).flat();

let loading = null;
const loadPlots = () => {
  loading ??= import("../vendor/uplot.js").then((module) => {
    const link = document.createElement("link");
    link.rel = "stylesheet";
    link.href = new URL("../vendor/uplot.css", import.meta.url).href;
    document.head.append(link);
    return module.default;
  });
  return loading;
};

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--chakra-colors-${name}`).trim();

/** A time as uPlot's axis reads it. */
function zoned(UPlot, moment) {
  const at = new Date(moment * 1000);
  const zone = timezone();
  return zone ? UPlot.tzDate(at, zone) : at;
}

/** Each series on top of those before it, for bars. */
function stack(series) {
  const total = Array.from(series[0]?.values ?? [], () => 0);
  return series.map((each) => each.values.map((value, index) => (total[index] += value ?? 0)));
}

/**
 * @param times seconds since 1970 @param series [{label, values, isRest}]
 * @param bars stacked bars, for amounts in a span of time; lines otherwise, for what is at a time.
 */
export function Plot({ label, times, series, bars = false, height = 220 }) {
  const box = useRef(null);
  const [error, setError] = useState(null);
  const theme = useTheme();
  useEffect(() => {
    let plot = null;
    let isGone = false;
    let watch = null;
    loadPlots()
      .then((UPlot) => {
        if (isGone || !box.current) return;
        // The last bar of a stack is the highest: it is drawn first, and the others in front of it.
        const order = series.map((_, index) => index);
        if (bars) order.reverse();
        const heights = bars ? stack(series) : series.map((each) => each.values);
        const axis = { stroke: colour("fg-muted"), grid: { stroke: colour("border"), width: 1 }, ticks: { stroke: colour("border") } };
        plot = new UPlot(
          {
            width: box.current.clientWidth,
            height,
            tzDate: (moment) => zoned(UPlot, moment),
            scales: { x: { time: true }, y: { range: (_, __, top) => [0, Math.max(1, top * 1.1)] } },
            // Records are counted whole.
            axes: [axis, { ...axis, size: 56, incrs: WHOLE_STEPS, values: (_, ticks) => ticks.map((tick) => short(tick)) }],
            series: [
              { value: (_, moment) => (moment ? time(moment) : "–") },
              ...order.map((index) => {
                const paint = colour(`${series[index].isRest ? "gray" : COLOURS[index % COLOURS.length]}-solid`);
                return {
                  label: series[index].label,
                  stroke: paint,
                  ...(bars ? { fill: paint, width: 0, paths: UPlot.paths.bars({ size: [0.8, 40], align: -1 }) } : { width: 2 }),
                  points: { show: false },
                  value: (_, __, ___, at) => (at === null ? "–" : short(series[index].values[at])),
                };
              }),
            ],
          },
          [times, ...order.map((index) => heights[index])],
          box.current,
        );
        watch = new ResizeObserver(() => plot.setSize({ width: box.current.clientWidth, height }));
        watch.observe(box.current);
      })
      .catch(setError);
    return () => {
      isGone = true;
      watch?.disconnect();
      plot?.destroy();
    };
  }, [times, series, bars, height, theme]);
  if (error) return html`<${Text} fontSize="sm" color="fg.muted">The plot could not be drawn: ${error.message}<//>`;
  return html`<${Box} ref=${box} role="img" aria-label=${label} width="100%" minHeight=${`${height}px`} className="ps-plot" />`;
}

/** Changes when Airflow switches between light and dark. */
function useTheme() {
  const [theme, setTheme] = useState(document.documentElement.className);
  useEffect(() => {
    const watch = new MutationObserver(() => setTheme(document.documentElement.className));
    watch.observe(document.documentElement, { attributes: true, attributeFilter: ["class"] });
    return () => watch.disconnect();
  }, []);
  return theme;
}
