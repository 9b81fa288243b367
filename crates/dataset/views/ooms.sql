-- Failed allocations with the line that asked
with failed as (
  select run, step, rank, device, event, time_us, size, device_free, requested, reserved, stack
  from events
  where action = 'oom'
),
frames_of as (
  select
    o.run, o.step, o.rank, o.device, o.event, f.file, f.line, f.name,
    row_number() over (partition by o.run, o.step, o.rank, o.device, o.event order by s.position) as nth
  from failed o
  join stacks s on o.run = s.run and o.step = s.step and o.rank = s.rank and o.device = s.device and o.stack = s.stack
  join frames f on s.run = f.run and s.step = f.step and s.rank = f.rank and s.device = f.device and s.frame = f.frame
  where not f.internal
)
select
  o.run, o.step, o.rank, o.device, o.event, o.time_us, o.size, o.device_free, o.requested, o.reserved, l.file, l.line, l.name
from failed o
left join frames_of l on o.run = l.run and o.step = l.step and o.rank = l.rank and o.device = l.device and o.event = l.event and l.nth = 1
order by o.run, o.step, o.rank, o.device, o.event
