// The page: loads the map, and shows one view at a time.

import { json } from "./api.js";
import { calibrationView } from "./calibration.js";
import { dropView } from "./drop.js";
import { liveView } from "./live.js";
import { mapView } from "./map.js";
import { $, element } from "./page.js";
import { redraw, setGround } from "./plots.js";

const views = {};
let resized = 0;
const tabs = [...document.querySelectorAll("[role=tab]")];

async function start() {
  const world = { map: await json("map"), page: await json("page") };
  setGround(world.map);
  describe(world);
  Object.assign(views, {
    map: mapView(world),
    drop: dropView(world, () => show("drop")),
    live: liveView(world),
    calibration: calibrationView(world),
  });
  const wanted = location.hash.slice(2);
  await show(wanted in views ? wanted : "map");
  document.body.dataset.ready = "true";
}

function describe({ map, page }) {
  document.title = `${page.name} · Mappable`;
  $("#title").textContent = page.name;
  const landmarks = `${map.places.length.toLocaleString("en")} landmarks in the frame ${map.frame}`;
  const calibrated = map.calibration ? "" : "; not calibrated";
  $("#about").textContent = `${landmarks}${calibrated}; positions in ${map.unit}`;
}

const current = () => tabs.find((tab) => tab.ariaSelected === "true").getAttribute("aria-controls");

async function show(name) {
  for (const tab of tabs) {
    const chosen = tab.getAttribute("aria-controls") === name;
    tab.ariaSelected = String(chosen);
    tab.tabIndex = chosen ? 0 : -1;
    $(`#${tab.getAttribute("aria-controls")}`).hidden = !chosen;
  }
  history.replaceState(null, "", `#/${name}`);
  await views[name].show();
}

function keys(event) {
  const end = { Home: 0, End: -1 }[event.key],
    inTabs = event.target.closest?.("[role=tablist]");
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!(step || (inTabs && end !== undefined)) || event.altKey || event.ctrlKey || event.metaKey) return;
  const view = views[current()];
  if (inTabs) {
    const next = tabs.at(end ?? (tabs.findIndex((tab) => tab.ariaSelected === "true") + step) % tabs.length);
    next.focus();
    show(next.getAttribute("aria-controls"));
  } else if (!event.target.matches?.("input, select, textarea") && view?.step) {
    view.step(step);
  } else return;
  event.preventDefault();
}

// Legends and margins depend on the width of the window.
function later() {
  clearTimeout(resized);
  resized = setTimeout(redraw, 300);
}

function theme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
  redraw();
}

for (const tab of tabs) tab.addEventListener("click", () => show(tab.getAttribute("aria-controls")));
document.addEventListener("keydown", keys);
$("#theme").addEventListener("click", theme);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
addEventListener("resize", later);
start().catch((error) => {
  $("#about").replaceChildren(element("span", { className: "bad" }, error.message));
});
