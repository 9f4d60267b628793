// What the map was calibrated on, and when it trusts an image: a plot, and a sentence that says how to read it.

import { $, number } from "./page.js";
import { color, draw } from "./plots.js";

export function calibrationView({ map, page }) {
  // What the map itself knows: the distance of two images, by feature distance.
  function curve() {
    const { feature, middle, low, high } = page.calibration;
    const interval = `${number(100 * map.calibration.coverage, 0)} % interval`;
    return {
      traces: [
        { ...line(feature, low, "low"), showlegend: false, line: { width: 0 } },
        { ...line(feature, high, interval), fill: "tonexty", fillcolor: color("bar", 0.2), line: { width: 0 } },
        { ...line(feature, middle, "median"), line: { color: color("bar"), width: 2.5 } },
      ],
      layout: {
        xaxis: { title: { text: "feature distance of two images" } },
        yaxis: { title: { text: `distance (${map.unit})` }, rangemode: "tozero" },
      },
    };
  }

  const line = (x, y, name) => ({ x, y, mode: "lines", name, hoverinfo: "skip" });

  function lead() {
    const known = map.calibration;
    if (!known) return "This map has no calibration of its own: its images calibrate it when it is used.";
    const note = known.note && ` (${known.note})`;
    return (
      `How far apart two images are, by how different they look. Calibrated on ${known.calibrated_on}, ` +
      `${known.images.toLocaleString("en")} images${note}. The map trusts a single image if one place, with a radius of ` +
      `${number(known.radius)} ${map.unit}, has a probability of at least ${number(100 * known.sure)} %.`
    );
  }

  return {
    show: async () => {
      $("#calibration-lead").textContent = lead();
      $("#calibration-card").hidden = !page.calibration;
      if (page.calibration) await draw($("#calibration-plot"), curve);
    },
  };
}
