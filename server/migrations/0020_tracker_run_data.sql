-- A new connection planned the reading of runs anew for each of its first five requests, which took longer than reading.
-- The plan that is kept after them is good from the first one on: every table is read by the ids of the runs.
alter function tracker_run_data(uuid, uuid[]) set plan_cache_mode = force_generic_plan;
