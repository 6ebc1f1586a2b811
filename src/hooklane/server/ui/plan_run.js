// Plan, show, run: what a replay or skip would do is frozen by the server, shown, and then exactly that is done.

import { call, get } from "./api.js";
import { href } from "./route.js";
import { counted } from "./words.js";

const LOOK_MS = 250;
const LOOKS_MAX = 1200;

export const makePlan = (op, wanted) => call("POST", "plans", { op, ...wanted });

/** Runs a plan as *how* says ({note, rate, grace_s}); *told* hears how the job goes. Resolves to the job when it has ended. */
export async function runPlan(plan, how = {}, told = () => {}) {
  let job = await call("POST", `plans/${plan.id}/run`, { digest: plan.digest, ...how });
  for (let looks = 0; job.state === "running" && looks < LOOKS_MAX; looks++) {
    told(job);
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    job = await get(`jobs/${job.id}`);
  }
  told(job);
  return job;
}

/** Stops a job; within its grace nothing has happened. */
export const stopJob = (job) => call("DELETE", `jobs/${job.id}`);

/** What came of a job, in a line. */
export function jobLine(job) {
  const { delivered = 0, skipped = 0, published = 0, failed = 0, held = 0, refused = 0, released = 0, planned = 0 } = job.counts;
  const onTheirWay = released + (job.state === "stopped" ? 0 : planned); // who stopped it cancels these in a moment
  const words = [
    delivered && `${counted(delivered, "event")} delivered`,
    published && `${counted(published, "event")} published again`,
    skipped && `${counted(skipped, "event")} skipped`,
    failed && `${failed} failed again`,
    held && `${held} held behind what failed`,
    refused && `${refused} refused`,
    onTheirWay > 0 && `${onTheirWay} on their way`,
  ].filter(Boolean);
  return words.join(", ") || (job.state === "stopped" ? "Stopped, nothing was done" : "Nothing was left to do");
}

export const isGood = (job) => !job.counts.failed && !job.counts.refused;

export const auditLink = { href: href("/audit"), text: "Audit" };
