// Plots over time, by uPlot. It is loaded when the first plot is shown: it fails at import in odd locales.
import { Chakra, html, useEffect, useRef, useState } from "./react.js";
import { short } from "./format.js";

const { Box, Text } = Chakra;
const COLOURS = ["blue", "green", "orange", "purple", "cyan", "pink", "red", "teal", "yellow", "gray"];

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

/** @param times seconds since 1970 @param series [{label, values}] */
export function Plot({ label, times, series, height = 220 }) {
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
        const axis = { stroke: colour("fg-muted"), grid: { stroke: colour("border"), width: 1 }, ticks: { stroke: colour("border") } };
        plot = new UPlot(
          {
            width: box.current.clientWidth,
            height,
            scales: { x: { time: true }, y: { range: (_, __, top) => [0, Math.max(1, top * 1.1)] } },
            axes: [axis, { ...axis, size: 56, values: (_, ticks) => ticks.map((tick) => short(tick)) }],
            series: [
              {},
              ...series.map((each, index) => ({
                label: each.label,
                stroke: colour(`${COLOURS[index % COLOURS.length]}-solid`),
                width: 2,
                points: { show: false },
                value: (_, value) => (value === null || value === undefined ? "–" : short(value)),
              })),
            ],
          },
          [times, ...series.map((each) => each.values)],
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
  }, [times, series, height, theme]);
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
