-- The first event in which two runs differ, by step, rank and device: the first and the last run by name
with runs as (
  select min(run) as first_run, max(run) as second_run
  from ranks
),
paired as (
  select
    e.step, e.rank, e.device, e.event,
    max(case when e.run = r.first_run then e.action end) as first_action,
    max(case when e.run = r.first_run then e.size end) as first_size,
    max(case when e.run = r.second_run then e.action end) as second_action,
    max(case when e.run = r.second_run then e.size end) as second_size
  from events e
  cross join runs r
  where r.first_run <> r.second_run and (e.run = r.first_run or e.run = r.second_run)
  group by e.step, e.rank, e.device, e.event
),
differing as (
  select
    step, rank, device, event, first_action, first_size, second_action, second_size,
    row_number() over (partition by step, rank, device order by event) as nth
  from paired
  where coalesce(first_action, '') <> coalesce(second_action, '')
    or coalesce(first_size, -1) <> coalesce(second_size, -1)
)
select step, rank, device, event, first_action, first_size, second_action, second_size
from differing
where nth = 1
order by step, rank, device
