// Whether stated distances are true: a plot, and a sentence that says how to read it.

import { $, number, percent } from "./page.js";
import { color, draw } from "./plots.js";

const SHADES = ["bar", "amber", "plum", "good", "soft", "red"];

export function calibrationView(world) {
  const { map, page, study } = world;

  // The trusted test images of the study: stated against true distance to the landmark.
  function stated() {
    const { found } = world,
      { queries, unit, negative_radius: most } = study;
    const conditions = [...new Set(queries.condition)];
    const sure = found.error.map((_, n) => n).filter((n) => found.confident[n] && found.distance[n] !== null);
    const end = Math.max(1, ...sure.map((n) => found.distance[n])) * 1.1;
    const points = conditions.map((condition, index) => {
      const own = sure.filter((n) => queries.condition[n] === condition);
      const { covered } = found.calibration.by_condition[condition || "unnamed"];
      return {
        x: own.map((n) => found.distance[n]),
        y: own.map((n) => found.error[n]),
        mode: "markers",
        name: `${condition || "unnamed"}: ${covered === null ? "none trusted" : `${percent(covered)} in their interval`}`,
        text: own.map((n) => queries.id[n]),
        hovertemplate: "%{text}<br>stated %{x:.1f}, true %{y:.1f}<extra></extra>",
        marker: { size: 6, color: color(SHADES[index % SHADES.length], 0.6) },
      };
    });
    return {
      traces: [...points, { ...line([0, end], [0, end], "stated = true"), line: { color: color("soft"), dash: "dot" } }],
      layout: {
        legend: { entrywidth: 0 },
        xaxis: { title: { text: `stated distance (${unit})` }, rangemode: "tozero" },
        yaxis: {
          title: { text: `true distance (${unit})` },
          range: [0, Math.max(end, Math.min(most, end * 1.6))],
        },
      },
    };
  }

  // What the map itself knows: the distance to the nearest landmark, by feature distance.
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
        xaxis: { title: { text: "feature distance to the nearest landmark" } },
        yaxis: { title: { text: `distance to that landmark (${map.unit})` }, rangemode: "tozero" },
      },
    };
  }

  const line = (x, y, name) => ({ x, y, mode: "lines", name, hoverinfo: "skip" });

  function lead() {
    const own = world.found?.calibration,
      known = map.calibration;
    if (own?.covered != null) {
      return (
        `Of the test images that ${world.model.title} trusts, ${percent(own.covered)} are within their interval ` +
        `(it promises ${number(100 * own.coverage, 0)} %); it trusts ${percent(own.confident)} of all.`
      );
    }
    if (!known) {
      return (
        "This map is not calibrated, so it gives no distances in metres: build it again with images of another " +
        "visit in the split calibration."
      );
    }
    const note = known.note && ` (${known.note})`;
    return (
      `How far an image may be from its nearest landmark, by how different they look: measured on ` +
      `${known.images.toLocaleString("en")} images; the map trusts ${percent(100 * known.confident)} of them${note}.`
    );
  }

  return {
    changed: () => {},
    show: async () => {
      $("#calibration-lead").textContent = lead();
      const judged = world.found?.calibration?.covered != null;
      $("#calibration-card").hidden = !judged && !page.calibration;
      if (judged || page.calibration) await draw($("#calibration-plot"), judged ? stated : curve);
    },
  };
}
