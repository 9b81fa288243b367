-- How peaks grow from the second complete step to the last, and how many more steps fit
with complete_steps as (
  select
    run, step, rank, device, peak_requested,
    row_number() over (partition by run, step, rank, device order by in_step) as nth,
    count(*) over (partition by run, step, rank, device) as steps
  from steps
  where complete
),
ends as (
  select
    run, step, rank, device, max(steps) as steps,
    max(case when nth = 2 then peak_requested end) as second_peak,
    max(case when nth = steps then peak_requested end) as last_peak
  from complete_steps
  group by run, step, rank, device
)
select
  e.run, e.step, e.rank, e.device, e.steps, e.second_peak, e.last_peak, r.capacity,
  cast(e.last_peak - e.second_peak as double) / (e.steps - 2) as bytes_per_step,
  case
    when e.last_peak > e.second_peak and r.capacity > e.last_peak
    then cast(r.capacity - e.last_peak as double) * (e.steps - 2) / (e.last_peak - e.second_peak)
  end as steps_left
from ends e
join ranks r on e.run = r.run and e.step = r.step and e.rank = r.rank and e.device = r.device
where e.steps >= 3
order by bytes_per_step desc, e.run, e.step, e.rank, e.device
