// The page: loads the map and the study, and shows one view at a time.

import { json } from "./api.js";
import { calibrationView } from "./calibration.js";
import { dropView } from "./drop.js";
import { liveView } from "./live.js";
import { mapView } from "./map.js";
import { matricesView } from "./matrices.js";
import { $, element, options, percent } from "./page.js";
import { redraw, setGround } from "./plots.js";
import { trajectoryView } from "./trajectory.js";

const views = {};
let resized = 0;
const tabs = [...document.querySelectorAll("[role=tab]")];

async function start() {
  const world = { map: await json("map"), page: await json("page"), study: null, model: null, found: null };
  setGround(world.map, world.page.tiles);
  const { study } = await json("study");
  world.study = study;
  describe(world);
  if (study) await choose(world, ownModel(world));
  Object.assign(views, {
    map: mapView(world),
    drop: dropView(world, () => show("drop")),
    live: liveView(world),
    matrices: matricesView(world),
    trajectory: trajectoryView(world),
    calibration: calibrationView(world),
  });
  const wanted = location.hash.slice(2);
  await show(wanted in views ? wanted : "map");
  document.body.dataset.ready = "true";
}

function describe({ map, page, study }) {
  document.title = `${page.name} · Mappable`;
  $("#title").textContent = page.name;
  const landmarks = `${map.landmarks.length.toLocaleString("en")} landmarks in the frame ${map.frame}`;
  const queries = study ? `; ${study.queries.id.length.toLocaleString("en")} test images of the study ${study.set}` : "";
  const calibrated = map.calibration ? "" : "; not calibrated";
  $("#about").textContent = `${landmarks}${queries}${calibrated}; positions in ${map.unit}`;
  $("#tab-matrices").hidden = !study?.models.some((one) => one.matrices);
  $("#tab-trajectory").hidden = !study?.models.some((one) => one.trajectory);
}

// The model whose encoder made the map, or else the best model.
function ownModel({ map, study }) {
  return (study.models.find((one) => one.encoder === map.encoder) ?? study.models.at(-1)).name;
}

async function choose(world, name) {
  const { study } = world;
  const seeds = new Set(study.models.map((one) => one.seed)).size > 1;
  options(
    $("#model"),
    study.models.map((one) => [
      one.name,
      `${one.title}${seeds ? `, seed ${one.seed}` : ""} (${percent(one.positive)} within ${study.positive_radius} ${study.unit})`,
    ]),
    name,
  );
  $("#model-choice").hidden = false;
  $("#model").onchange = async (event) => {
    await read(world, event.target.value);
    for (const view of Object.values(views)) view.changed();
    await views[current()].show();
  };
  await read(world, name);
}

async function read(world, name) {
  world.found = await json(`study/models/${encodeURIComponent(name)}`);
  world.model = world.study.models.find((one) => one.name === name);
}

const current = () => tabs.find((tab) => tab.ariaSelected === "true").getAttribute("aria-controls");

async function show(name) {
  for (const tab of tabs) {
    const chosen = tab.getAttribute("aria-controls") === name;
    tab.ariaSelected = String(chosen);
    tab.tabIndex = chosen ? 0 : -1;
    $(`#${tab.getAttribute("aria-controls")}`).hidden = !chosen;
  }
  $("#model-choice").hidden = !$("#model").length || ["drop", "live"].includes(name); // the served map locates images, not a model
  history.replaceState(null, "", `#/${name}`);
  await views[name].show();
}

function keys(event) {
  const end = { Home: 0, End: -1 }[event.key],
    inTabs = event.target.closest?.("[role=tablist]");
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key],
    climb = { ArrowUp: -1, ArrowDown: 1 }[event.key];
  if (!(step || climb || (inTabs && end !== undefined)) || event.altKey || event.ctrlKey || event.metaKey) return;
  const view = views[current()];
  if (inTabs && !climb) {
    const there = tabs.filter((tab) => !tab.hidden);
    const next = there.at(end ?? (there.findIndex((tab) => tab.ariaSelected === "true") + step) % there.length);
    next.focus();
    show(next.getAttribute("aria-controls"));
  } else if (!event.target.matches?.("input, select, textarea") && (step ? view?.step : view?.climb)) {
    step ? view.step(step) : view.climb(climb);
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
