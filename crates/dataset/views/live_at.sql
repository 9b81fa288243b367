-- Every allocation that is live at a moment: the peak of each rank; put other events into the first query
with moments as (
  select run, step, rank, device, coalesce(peak_event, -1) as event
  from ranks
)
select
  a.run, a.step, a.rank, a.device, a.allocation, a.requested, a.size, a.file, a.line, a.name, a.category, a.phase, a.module
from allocations a
join moments m on a.run = m.run and a.step = m.step and a.rank = m.rank and a.device = m.device
where coalesce(a.alloc_event, -1) <= m.event
  and coalesce(a.free_event, 9223372036854775807) > m.event
order by a.requested desc, a.run, a.step, a.rank, a.device, a.allocation
