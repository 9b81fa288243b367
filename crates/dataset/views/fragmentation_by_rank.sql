-- What each rank reserves without using it: at its peak, and stranded in partly used segments at the end
with partly as (
  select run, step, rank, device, count(*) as segments, sum(total_size - active_size) as stranded
  from segments
  where active_size > 0 and active_size < total_size
  group by run, step, rank, device
)
select
  r.run, r.step, r.rank, r.device, r.peak_reserved, r.gap, r.end_reserved, r.free_reserved, r.segments,
  coalesce(p.segments, 0) as partly_used, coalesce(p.stranded, 0) as stranded
from ranks r
left join partly p on r.run = p.run and r.step = p.step and r.rank = p.rank and r.device = p.device
order by coalesce(r.gap, 0) desc, r.run, r.step, r.rank, r.device
