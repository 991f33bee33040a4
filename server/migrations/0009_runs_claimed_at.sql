-- When a worker last took a run in hand: an owner that dies after long work is no sign that the run kills its owners.
alter table runs add column claimed_at timestamptz;
