// Whether stated distances are true, and whether intervals contain the truth as often as they claim.

import { $, number, percent } from "./page.js";
import { color, draw } from "./plots.js";

const SHADES = ["bar", "amber", "plum", "good", "soft", "red"];

export function calibrationView(world) {
  const { map, study } = world;

  function stated() {
    const { found } = world,
      { queries, unit, negative_radius: most } = study;
    const conditions = [...new Set(queries.condition)];
    const sure = found.error.map((_, n) => n).filter((n) => found.confident[n] && found.distance[n] !== null);
    const end = Math.max(1, ...sure.map((n) => found.distance[n])) * 1.1;
    const points = conditions.map((condition, index) => {
      const own = sure.filter((n) => queries.condition[n] === condition);
      return {
        x: own.map((n) => found.distance[n]),
        y: own.map((n) => found.error[n]),
        mode: "markers",
        name: condition || "unnamed",
        text: own.map((n) => queries.id[n]),
        hovertemplate: "%{text}<br>stated %{x:.1f}, true %{y:.1f}<extra></extra>",
        marker: { size: 6, color: color(SHADES[index % SHADES.length], 0.6) },
      };
    });
    const line = {
      x: [0, end],
      y: [0, end],
      mode: "lines",
      hoverinfo: "skip",
      showlegend: false,
      line: { color: color("soft"), dash: "dot", width: 1 },
    };
    return {
      traces: [...points, line],
      layout: {
        xaxis: { title: { text: `stated (${unit})` }, rangemode: "tozero" },
        yaxis: { title: { text: `true (${unit})` }, range: [0, Math.max(end, Math.min(most, end * 1.6))] },
      },
    };
  }

  function coverage() {
    const { by_condition: by, coverage } = world.found.calibration;
    const names = Object.keys(by).filter((name) => by[name].covered !== null);
    return {
      traces: [
        {
          type: "bar",
          x: names,
          y: names.map((name) => by[name].covered),
          marker: { color: color("bar") },
          width: 0.5,
          text: names.map((name) => percent(by[name].covered)),
          textposition: "inside",
          insidetextanchor: "middle",
          textangle: 0,
          cliponaxis: false,
          customdata: names.map((name) => by[name].confident),
          hovertemplate:
            "%{x}<br>%{y:.1f} % of intervals are correct<br>%{customdata:.1f} % confident<extra></extra>",
        },
      ],
      layout: {
        yaxis: { title: { text: "intervals with the true distance (%)" }, range: [0, 100] },
        xaxis: { showgrid: false },
        shapes: [
          {
            type: "line",
            xref: "paper",
            x0: 0,
            x1: 1,
            y0: 100 * coverage,
            y1: 100 * coverage,
            line: { color: color("text"), dash: "dash", width: 1.5 },
          },
        ],
      },
    };
  }

  function lead() {
    const own = world.found?.calibration;
    if (own?.covered != null) {
      return (
        `${world.model.title}: ${percent(100 * own.coverage)} intervals contain the true distance for ` +
        `${percent(own.covered)} of the confident images. Their average width is ${number(own.width)} ${study.unit}. ` +
        `The map is confident for ${percent(own.confident)} of all test images.`
      );
    }
    if (study) return own?.note || `${world.model.title} was not calibrated in this study.`;
    const { calibration: one } = map;
    if (!one) return "This map is not calibrated: it finds landmarks, but gives no distances in metres.";
    return (
      `Calibrated on ${one.images.toLocaleString("en")} images (${one.source}) with ${percent(100 * one.coverage)} intervals. ` +
      `Their average width is ${number(one.width)} ${map.unit}. Serve the map with a study to see how true they are. ${one.note}`
    );
  }

  return {
    changed: () => {},
    show: async () => {
      $("#calibration-lead").textContent = lead();
      const there = world.found?.calibration?.covered != null;
      $("#calibration-plots").hidden = !there;
      if (!there) return;
      await draw($("#stated-plot"), stated);
      await draw($("#coverage-plot"), coverage);
    },
  };
}
