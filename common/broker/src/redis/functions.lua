#!lua name=goalmill
-- version 1
local BUILD = ''
-- A process loads this text twice. The library of its build, `goalmill_<hash of this text>`, has all functions, each with
-- `_<hash>` behind its name, so that builds with other texts work on the same server. The library `goalmill` has
-- those that other programs may call (docs/protocol.md): their arguments and answers are only added, and a change of
-- one of them after a release raises the version, which replaces an older library `goalmill`.

-- Everything that must happen as a whole. A script's writes are not undone when it fails half-way, so each
-- function checks whatever could fail before its first write. Payloads are bytes that nobody here looks into.

-- Lua hands over at most about 8,000 values to one command.
local PORTION = 1000

-- Calls `command key items…`, in portions.
local function write(command, key, items)
  for first = 1, #items, PORTION do
    redis.call(command, key, unpack(items, first, math.min(first + PORTION - 1, #items)))
  end
end

local function decimal(number)
  return string.format('%.0f', number)
end

-- The server's time in Unix milliseconds.
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- How many arguments flags below 32 name; see `commit`.
local EXTRAS = {}
for flags = 0, 31 do
  local count = 0
  if flags % 4 == 2 then count = count + 1 end
  if flags % 8 >= 4 then count = count + 1 end
  if flags % 16 >= 8 then count = count + 1 end
  if flags >= 16 then count = count + 1 end
  if flags % 8 ~= 0 then count = count + 1 end
  EXTRAS[flags] = count
end

-- Keys of a commit before those of its plans.
local FIXED = 7

-- No entry can follow one with an id above this: a stream that has one takes no more.
local ID_MAX = '18446744073709551614-0'

-- Looks at streams with few commands; an error when one is of another type. Returns the first stream of `looked` that
-- has an entry after its id among `ids`.
local function look(looked, ids)
  for first = 1, #looked, PORTION do
    local last = math.min(first + PORTION - 1, #looked)
    local read = { 'XREAD', 'COUNT', '1', 'STREAMS' }
    for place = first, last do read[#read + 1] = looked[place] end
    for place = first, last do read[#read + 1] = ids[place] end
    local found = redis.call(unpack(read))
    if found then return found[1][1] end
  end
end

-- Looks at all that `commit` will write, before it writes; an error when a key is of another type.
-- Returns what does not follow, if anything.
local function check(keys, args, plans, types, full_check)
  local call = redis.call
  local streams = FIXED + 2 * plans
  local looked, ids, count, active, index, at = {}, {}, 0, full_check, full_check, 9
  for plan = 1, plans do
    local flags = tonumber(args[at])
    local kind, values = flags % 32, math.floor(flags / 32)
    local log, summary = keys[FIXED - 1 + 2 * plan], keys[FIXED + 2 * plan]
    if kind >= 16 then
      local base = args[at + 3]
      if base == '0' then
        if call('EXISTS', log, summary) > 0 then
          -- A key of another type is an error.
          call('XLEN', log)
          call('HLEN', summary)
          return 'GAP `' .. log .. '` has begun'
        end
      else
        local entry = call('HEXISTS', summary, 'seq') == 1 and call('XREVRANGE', log, '+', '-', 'COUNT', '1')[1]
        local seq = entry and string.match(entry[1], '^%d+') or '0'
        if seq ~= base then return 'GAP `' .. log .. '` is at ' .. seq .. ', not at ' .. base end
      end
    else
      if args[at + 2] ~= '' then
        count = count + 1
        -- An entry from the one on that is to be written would make the write fail.
        looked[count], ids[count] = log, decimal(args[at + 1] - 1) .. '-1'
      end
      if values > 0 then call('HLEN', summary) end
    end
    active = active or kind % 4 > 0
    index = index or kind % 8 >= 4
    at = at + 3 + EXTRAS[kind] + values
  end
  if active then call('SCARD', keys[2]) end
  if index then call('ZCARD', keys[3]) end
  if full_check or args[3] ~= '' then call('STRLEN', keys[4]) end
  if full_check or args[8] ~= '' then call('STRLEN', keys[6]) end
  if full_check then
    call('XLEN', keys[5])
    call('XLEN', keys[7])
  end
  local ahead = look(looked, ids)
  if ahead then return 'GAP `' .. ahead .. '` is ahead' end
  looked, ids = {}, {}
  for stream = 1, types do
    looked[stream], ids[stream] = keys[streams + stream], ID_MAX
  end
  local full = look(looked, ids)
  for stream = 1, full and types or 0 do
    if keys[streams + stream] == full then return 'TYPE ' .. streams + stream .. ' full stream' end
  end
end

local TYPES = { 'hash', 'set', 'zset', 'string', 'stream', 'string', 'stream' }

-- The keys of a commit that are of another type than they should: 'TYPE', then number of the key, what it is and what it
-- should be, for each; nil when there are none. Results and answers replace what was there.
local function type_mismatches(keys, plans, types)
  local found = { 'TYPE' }
  for place = 1, FIXED + 2 * plans + types do
    local key = keys[place]
    local wanted = TYPES[place] or 'stream'
    if place > FIXED and place <= FIXED + 2 * plans and (place - FIXED) % 2 == 0 then wanted = 'hash' end
    local is = redis.call('TYPE', key).ok
    if is ~= 'none' and is ~= wanted then found[#found + 1] = place .. ' ' .. is .. ' ' .. wanted end
  end
  if #found > 1 then return table.concat(found, ' ') end
end

-- Stores the last entry of a stream that was handled, if any was; a full check trims the stream up to there.
local function move_cursor(cursor, stream, id, full_check)
  if id ~= '' then redis.call('SET', cursor, id) end
  local handled = full_check and redis.call('GET', cursor)
  -- What others wrote as a cursor trims nothing.
  if handled then redis.pcall('XTRIM', stream, 'MINID', '~', handled) end
end

-- Writes the only entry of a result, in place of what was there: `field, value, …` among `args`.
local function write_result(key, kept_ms, args, first, last)
  redis.call('DEL', key)
  redis.call('XADD', key, '*', unpack(args, first, last))
  redis.call('PEXPIRE', key, kept_ms)
end

-- One batch of one shard, whole or not at all.
-- KEYS[1] owner  [2] active  [3] index  [4] cursor of the reports  [5] reports  [6] cursor of the requests  [7] requests
-- KEYS[8…] log and summary of each plan, then one task stream for each agent type, then result and answer of each plan
-- whose client gets an answer
-- ARGV[1] token  [2] commit number  [3] cursor of the reports or ''  [4] '1' for a full check  [5] plans  [6] tasks
-- ARGV[7] agent types  [8] cursor of the requests or ''
-- then for each plan: flags, last seq, events or '' for its summary alone, then what the flags name (the summary's
-- `seq` is written with other values only):
--   + 16 somebody else may have written it: base seq; + 1 begins, + 2 ends: retention ms; + 4 the index: index ms;
--   + 8 another time than the plan before: time; with 1, 2 or 4: id; + 32 for each further value: field, value, …
-- then for each task: number of its stream counted from 1, data
-- then for each agent type: number of entries to acknowledge, ids…
-- then for each answer: how long it is kept, ms, answer, number of arguments of the result, field, value, …
-- Returns 'OK', 'DUP', 'FENCED', 'GAP …' or 'TYPE …', see `type_mismatches`.
local function commit(keys, args)
  local call = redis.call
  local plans, tasks, types = tonumber(args[5]), tonumber(args[6]), tonumber(args[7])
  local owner = redis.pcall('HMGET', keys[1], 'token', 'commit', 'beat')
  if owner.err then return type_mismatches(keys, plans, types) or owner end
  if owner[1] ~= args[1] then return 'FENCED' end
  if owner[2] == args[2] then return 'DUP' end
  if tonumber(owner[2] or 0) + 1 ~= tonumber(args[2]) then
    return 'GAP commit ' .. args[2] .. ' does not follow ' .. (owner[2] or 'none')
  end
  local full_check = args[4] == '1'
  local streams = FIXED + 2 * plans
  local is_fit, refusal = pcall(check, keys, args, plans, types, full_check)
  if not is_fit then return type_mismatches(keys, plans, types) or error(refusal) end
  if refusal then return refusal end

  local begins, ends, index, time = {}, {}, {}, nil
  local at = 9
  for plan = 1, plans do
    local log, summary = keys[FIXED - 1 + 2 * plan], keys[FIXED + 2 * plan]
    local flags, last, events = tonumber(args[at]), args[at + 1], args[at + 2]
    local kind, values, retention = flags % 16, math.floor(flags / 32), nil
    at = at + 3
    if flags % 32 >= 16 then at = at + 1 end
    if kind ~= 0 then
      local index_ms
      if kind % 4 == 2 then retention, at = args[at], at + 1 end
      if kind % 8 >= 4 then index_ms, at = args[at], at + 1 end
      if kind >= 8 then time, at = args[at], at + 1 end
      if kind ~= 8 then
        local id = args[at]
        at = at + 1
        if kind % 4 == 1 then begins[#begins + 1] = id end
        if retention then ends[#ends + 1] = id end
        if index_ms then
          index[#index + 1] = index_ms
          index[#index + 1] = id
        end
      end
    end
    if events ~= '' then call('XADD', log, last .. '-0', 'v', '1', 'time', time, 'events', events) end
    if values > 0 then
      call('HSET', summary, 'seq', last, unpack(args, at, at + values - 1))
      at = at + values
    end
    if retention then
      call('PEXPIRE', log, retention)
      call('PEXPIRE', summary, retention)
    end
  end
  write('SADD', keys[2], begins)
  write('SREM', keys[2], ends)
  write('ZADD', keys[3], index)
  for _ = 1, tasks do
    call('XADD', keys[streams + args[at]], '*', 'v', '1', 'data', args[at + 1])
    at = at + 2
  end
  for stream = 1, types do
    local last = at + args[at]
    for first = at + 1, last, PORTION do
      call('XACK', keys[streams + stream], 'workers', unpack(args, first, math.min(first + PORTION - 1, last)))
    end
    at = last + 1
  end
  for result = streams + types + 1, #keys, 2 do
    local last = at + 2 + args[at + 2]
    if args[at + 2] ~= '0' then write_result(keys[result], args[at], args, at + 3, last) end
    call('SET', keys[result + 1], args[at + 1], 'PX', args[at])
    at = last + 1
  end
  move_cursor(keys[4], keys[5], args[3], full_check)
  move_cursor(keys[6], keys[7], args[8], full_check)
  call('HSET', keys[1], 'commit', args[2], 'beat', decimal((owner[3] or 0) + 1))
  return 'OK'
end

-- Takes a shard if its owner is still the one that was seen.
-- KEYS[1] owner. ARGV[1] new token  [2] holder  [3] '1' when an owner was seen  [4] its token  [5] its beat
-- Returns 1 when the shard is the claimant's, also when it was already; else 0.
local function acquire(keys, args)
  local owner = redis.call('HMGET', keys[1], 'token', 'beat')
  if owner[1] == args[1] then return 1 end
  if owner[1] then
    if args[3] ~= '1' or owner[1] ~= args[4] or owner[2] ~= args[5] then return 0 end
  elseif args[3] == '1' then
    return 0
  end
  redis.call('DEL', keys[1])
  redis.call('HSET', keys[1], 'token', args[1], 'holder', args[2], 'beat', '0', 'commit', '0')
  return 1
end

-- Shows that a shard's owner lives.
-- KEYS[1] owner. ARGV[1] token. Returns 1, or 0 when the token is not the owner's.
local function renew(keys, args)
  if redis.call('HGET', keys[1], 'token') ~= args[1] then return 0 end
  redis.call('HINCRBY', keys[1], 'beat', 1)
  return 1
end

-- Gives a shard up.
-- KEYS[1] owner. ARGV[1] token. Returns 1, or 0 when the token is not the owner's.
local function release(keys, args)
  if redis.call('HGET', keys[1], 'token') ~= args[1] then return 0 end
  return redis.call('DEL', keys[1])
end

-- Creates the installation when there is none.
-- KEYS[1] meta. ARGV: field, value, …; the first field is `instance`. Returns whether it was created, 1 or 0.
local function install(keys, args)
  if redis.call('HSETNX', keys[1], args[1], args[2]) == 0 then return 0 end
  redis.call('HSET', keys[1], unpack(args))
  return 1
end

-- Which of `ids` the worker holds, as a set. It rarely holds others: all it holds is looked at in one go.
local function holds(stream, worker, ids)
  local limit, set = #ids + 100, {}
  local pending = redis.pcall('XPENDING', stream, 'workers', '-', '+', limit, worker)
  if pending.err then
    if string.sub(pending.err, 1, 7) == 'NOGROUP' then return set end
    error(pending)
  end
  for _, entry in ipairs(pending) do set[entry[1]] = true end
  if #pending < limit then return set end
  for _, id in ipairs(ids) do
    set[id] = redis.call('XPENDING', stream, 'workers', id, id, 1, worker)[1] and true
  end
  return set
end

-- Extends the leases that are the worker's. Public: docs/protocol.md.
-- KEYS: one task stream for each agent type. ARGV[1] worker, then for each stream: number of ids, ids…
-- Returns for each id, in order, 1 when it is the worker's, or 0.
local function extend(keys, args)
  local answers, at = {}, 2
  for _, stream in ipairs(keys) do
    local ids, held, kept = {}, {}, {}
    for place = at + 1, at + args[at] do ids[#ids + 1] = args[place] end
    at = at + 1 + args[at]
    local set = holds(stream, args[1], ids)
    for _, id in ipairs(ids) do
      if set[id] then held[#held + 1] = id end
    end
    for first = 1, #held, PORTION do
      local claim = { 'XCLAIM', stream, 'workers', args[1], '0' }
      for place = first, math.min(first + PORTION - 1, #held) do claim[#claim + 1] = held[place] end
      claim[#claim + 1] = 'JUSTID'
      for _, id in ipairs(redis.call(unpack(claim))) do kept[id] = true end
    end
    for _, id in ipairs(ids) do answers[#answers + 1] = kept[id] and 1 or 0 end
  end
  return answers
end

-- Appends to an inbox although memory is short: a plain XADD was refused. Public: docs/protocol.md.
-- KEYS[1] reports, or requests for a scheduler. ARGV: field, value, … Returns the entry's id.
local function send(keys, args)
  return redis.call('XADD', keys[1], '*', unpack(args))
end

-- A flat list of names and values, by name.
local function fields(flat)
  local found = {}
  for place = 1, #flat, 2 do found[flat[place]] = flat[place + 1] end
  return found
end

-- What the server says about a group, by name; nil without stream or group.
local function group_state(stream, group)
  local groups = redis.pcall('XINFO', 'GROUPS', stream)
  if groups.err then return nil end
  for _, state in ipairs(groups) do
    local found = fields(state)
    if found['name'] == group then return found end
  end
end

-- The id of the last entry that a group has given out; nil without stream or group.
local function delivered(stream, group)
  local state = group_state(stream, group)
  return state and state['last-delivered-id']
end

-- Entries after `id`, counted up to a limit: Redis 7 loses count when entries were deleted from the middle.
local function count_after(stream, id)
  local count = 0
  repeat
    local page = redis.call('XRANGE', stream, '(' .. id, '+', 'COUNT', 100)
    count = count + #page
    if #page > 0 then id = page[#page][1] end
  until #page < 100 or count >= 10000
  return count
end

-- Entries that a group has not given out. The server's own count (`lag`) is too high after a restart from an append-only
-- file and after a promotion: both know which entries were given out, but not how many. It is too low, down to 0, after a
-- program has set it: Redis 8 lowers a count of more entries than there are.
local function count_waiting(stream, state)
  local lag, last = state['lag'], state['last-delivered-id']
  if not redis.call('XRANGE', stream, '(' .. last, '+', 'COUNT', 1)[1] then return 0 end
  if not lag or lag <= 0 then return count_after(stream, last) end
  return math.min(lag, redis.call('XLEN', stream))
end

-- Corrects the server's count of entries that a group has not given out: programs that scale workers read it.
local function correct_lag(stream, group)
  local state = group_state(stream, group)
  if not state then return end
  local waiting = count_waiting(stream, state)
  if waiting == state['lag'] then return end
  local info = fields(redis.call('XINFO', 'STREAM', stream))
  local last = waiting == 0 and info['last-generated-id'] or state['last-delivered-id']
  redis.call('XGROUP', 'SETID', stream, group, last, 'ENTRIESREAD', decimal(info['entries-added'] - waiting))
end

-- Whether one entry id is larger than another.
local function is_after(id, other)
  local ms, seq = string.match(id, '^(%d+)%-(%d+)$')
  local other_ms, other_seq = string.match(other, '^(%d+)%-(%d+)$')
  ms, seq, other_ms, other_seq = tonumber(ms), tonumber(seq), tonumber(other_ms), tonumber(other_seq)
  return ms > other_ms or (ms == other_ms and seq > other_seq)
end

-- Gives out entries and acknowledges them, as long as the next one is in the set: unlike XDEL, the server keeps count.
-- Returns how many.
local function pass_over(stream, group, consumer, last, set)
  local passed = 0
  while true do
    local page, ids = redis.call('XRANGE', stream, '(' .. last, '+', 'COUNT', 100), {}
    for _, entry in ipairs(page) do
      if not set[entry[1]] then break end
      ids[#ids + 1], last = entry[1], entry[1]
    end
    if #ids == 0 then return passed end
    redis.call('XREADGROUP', 'GROUP', group, consumer, 'COUNT', #ids, 'STREAMS', stream, '>')
    redis.call('XACK', stream, group, unpack(ids))
    passed = passed + #ids
  end
end

-- Removes entries that the group has not given out.
-- KEYS[1] stream. ARGV[1] its group  [2] a consumer, ids… Returns how many.
local function discard(keys, args)
  local last, set, removed = delivered(keys[1], args[1]), {}, 0
  for place = 3, #args do
    if not last or is_after(args[place], last) then set[args[place]] = true end
  end
  if last then removed = pass_over(keys[1], args[1], args[2], last, set) end
  -- What is left stands behind entries that are still needed.
  last = delivered(keys[1], args[1])
  for place = 3, #args do
    if set[args[place]] and (not last or is_after(args[place], last)) then
      removed = removed + redis.call('XDEL', keys[1], args[place])
    end
  end
  return removed
end

-- Removes an agent type that nothing uses.
-- KEYS[1] queues  [2] agents  [3] its task stream  [4] its dead letters.
-- ARGV[1] agent type  [2] the card of one of which only the name is known  [3] unused ms. Returns 1 when it was removed, or 0.
local function remove_type(keys, args)
  local card = redis.call('HGET', keys[2], args[1])
  if (card and card ~= args[2]) or redis.call('EXISTS', keys[4]) == 1 then return 0 end
  local kind = redis.call('TYPE', keys[3]).ok
  if kind ~= 'stream' and kind ~= 'none' then return 0 end
  if kind == 'stream' then
    local last = delivered(keys[3], 'workers')
    if last and redis.call('XPENDING', keys[3], 'workers')[1] > 0 then return 0 end
    if redis.call('XRANGE', keys[3], '(' .. (last or '0-0'), '+', 'COUNT', 1)[1] then return 0 end
    local info = fields(redis.call('XINFO', 'STREAM', keys[3]))
    local used = tonumber(string.match(info['last-generated-id'], '^%d+'))
    if used > now() - args[3] then return 0 end
  end
  local removed = redis.call('DEL', keys[3]) + redis.call('SREM', keys[1], args[1]) + redis.call('HDEL', keys[2], args[1])
  return removed > 0 and 1 or 0
end

-- The id below which nobody needs an entry: the oldest pending one, or else the last one given out.
local function needed(stream, group)
  local pending = redis.pcall('XPENDING', stream, group)
  if pending.err then
    if string.sub(pending.err, 1, 7) == 'NOGROUP' then return nil end
    error(pending)
  end
  if pending[1] > 0 then return pending[2] end
  return delivered(stream, group)
end

-- Drops entries that nobody needs, in whole nodes, and corrects the count of those that wait.
-- KEYS[1] stream. ARGV[1] its group. Returns how many were dropped.
local function trim(keys, args)
  local id = needed(keys[1], args[1])
  local dropped = id and redis.call('XTRIM', keys[1], 'MINID', '~', id) or 0
  correct_lag(keys[1], args[1])
  return dropped
end

-- Writes answers to repeated submissions, unless the data of the installation is gone: an answer must not outlive its
-- plan. An answer that comes late must not replace that of the end.
-- KEYS[1] meta  then answer and result of each submission. ARGV[1] instance, or empty  [2] milliseconds  [3…] texts.
-- Returns whether it wrote.
local function answer(keys, args)
  if args[1] ~= '' and redis.call('HGET', keys[1], 'instance') ~= args[1] then return 0 end
  for i = 2, #keys, 2 do
    if redis.call('EXISTS', keys[i], keys[i + 1]) < 2 then
      redis.call('SET', keys[i], args[i / 2 + 2], 'PX', args[2])
    end
  end
  return 1
end

-- Forgets the answer and the result of a refused submission, unless its id has a plan by now.
local function forget_refused(listed, answers, results)
  local id = fields(listed[2])['answered_as'] or ''
  local answer = redis.call('GET', answers .. id)
  if answer and not string.find(answer, '"plan_id"', 1, true) then redis.call('DEL', answers .. id, results .. id) end
end

-- Refuses a submission: its answer, its result, and its place in the list of those that were refused.
-- KEYS[1] meta  [2] its answer  [3] its result  [4] the list  [5] the answer of the plan that has its id, if one has.
-- ARGV[1] instance, or empty  [2] how long answers are kept, ms  [3] problem  [4] how many are listed  [5] for how long, ms
-- [6] the answer of that plan, or empty  [7] what keys of answers begin with  [8] the same of results; then field, value, …
-- for the list. What leaves the list early is forgotten as a whole. Returns whether it wrote, as `answer`.
local function refuse(keys, args)
  if args[1] ~= '' and redis.call('HGET', keys[1], 'instance') ~= args[1] then return 0 end
  -- A key of another type is an error.
  local over = redis.call('XLEN', keys[4]) + 1 - args[4]
  if over > 0 then
    for _, listed in ipairs(redis.call('XRANGE', keys[4], '-', '+', 'COUNT', over)) do
      forget_refused(listed, args[7], args[8])
    end
  end
  redis.call('SET', keys[2], args[3], 'PX', args[2])
  write_result(keys[3], args[2], { 'status', 'refused', 'problem', args[3] }, 1, 4)
  if keys[5] then redis.call('SET', keys[5], args[6], 'PX', args[2]) end
  redis.call('XADD', keys[4], 'MAXLEN', args[4], '*', unpack(args, 9))
  redis.call('XTRIM', keys[4], 'MINID', decimal(now() - args[5]))
  redis.call('PEXPIRE', keys[4], args[5])
  return 1
end

-- Writes a result, unless there is one.
-- KEYS[1] result. ARGV[1] how long it is kept, ms; then field, value, … Returns whether it wrote.
local function put_result(keys, args)
  if redis.call('EXISTS', keys[1]) == 1 then return 0 end
  write_result(keys[1], args[1], args, 2, #args)
  return 1
end

-- Acknowledges entries, then trims.
-- KEYS[1] stream. ARGV[1] its group, ids… Returns how many were acknowledged.
local function settle(keys, args)
  local settled = 0
  for first = 2, #args, PORTION do
    local last = math.min(first + PORTION - 1, #args)
    settled = settled + redis.call('XACK', keys[1], args[1], unpack(args, first, last))
  end
  trim(keys, args)
  return settled
end

-- Forgets consumers that hold nothing and have not been seen for long.
-- KEYS[1] stream. ARGV[1] its group  [2] idle ms  [3] at most so many. Returns how many.
local function prune(keys, args)
  local consumers = redis.pcall('XINFO', 'CONSUMERS', keys[1], args[1])
  if consumers.err then return 0 end
  local pruned = 0
  for _, state in ipairs(consumers) do
    local consumer = fields(state)
    if consumer['pending'] == 0 and consumer['idle'] > tonumber(args[2]) and pruned < tonumber(args[3]) then
      redis.call('XGROUP', 'DELCONSUMER', keys[1], args[1], consumer['name'])
      pruned = pruned + 1
    end
  end
  return pruned
end

-- Takes new tasks from several streams without waiting, in the order given, never more than asked for.
-- KEYS: task streams. ARGV[1] worker  [2] count.
-- Returns the reply of XREADGROUP; or, when there is nothing, for each stream the id of its last entry.
local function pull(keys, args)
  local left, taken = tonumber(args[2]), {}
  for _, stream in ipairs(keys) do
    if left <= 0 then break end
    local reply = redis.pcall('XREADGROUP', 'GROUP', 'workers', args[1], 'COUNT', left, 'STREAMS', stream, '>')
    if reply and reply.err then
      -- What was taken before must not be lost with the error.
      if #taken == 0 then return reply end
      break
    end
    if reply and reply[1] then
      taken[#taken + 1] = reply[1]
      left = left - #reply[1][2]
    end
  end
  if #taken > 0 then return taken end
  local tops = {}
  for place, stream in ipairs(keys) do
    local last = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)
    tops[place] = last[1] and last[1][1] or '0-0'
  end
  return tops
end

-- How full task streams are.
-- KEYS: task stream, dead letters, … Returns for each pair: waiting, pending, dead letters, and the type of the first
-- key when that is no stream, or ''.
local function queues(keys, _)
  local answers = {}
  for place = 1, #keys, 2 do
    local stream = keys[place]
    local waiting, pending = 0, 0
    local kind = redis.call('TYPE', stream).ok
    if kind == 'stream' then
      local state = group_state(stream, 'workers')
      pending = state and state['pending'] or 0
      waiting = state and count_waiting(stream, state) or redis.call('XLEN', stream)
    end
    answers[#answers + 1] = waiting
    answers[#answers + 1] = pending
    local dead = redis.pcall('XLEN', keys[place + 1])
    answers[#answers + 1] = type(dead) == 'number' and dead or 0
    answers[#answers + 1] = (kind == 'stream' or kind == 'none') and '' or kind
  end
  return answers
end

-- Publishes attempt tokens to stop, and remembers them.
-- KEYS[1] cancelled. ARGV[1] channel  [2] how long to remember, ms; tokens… Returns how many there are.
local function cancel(keys, args)
  local time, scored = now(), {}
  for place = 3, #args do
    scored[#scored + 1] = decimal(time)
    scored[#scored + 1] = args[place]
  end
  write('ZADD', keys[1], scored)
  redis.call('ZREMRANGEBYSCORE', keys[1], '-inf', decimal(time - args[2]))
  for first = 3, #args, PORTION do
    local last = math.min(first + PORTION - 1, #args)
    redis.call('PUBLISH', args[1], table.concat(args, ' ', first, last))
  end
  return #args - 2
end

-- Members of a ZSET of times that are younger than so many milliseconds.
-- KEYS[1] ZSET. ARGV[1] age ms. Returns members and their times, oldest first.
local function recent(keys, args)
  return redis.call('ZRANGEBYSCORE', keys[1], '(' .. decimal(now() - args[1]), '+inf', 'WITHSCORES')
end

-- Keeps an event from outside, unless its topic has one with the same id.
-- KEYS[1] what the namespace keeps and no plan has taken  [2] the stream of the topic  [3] the event.
-- ARGV[1] topic  [2] id  [3] event  [4] how long it is kept, ms  [5] how many the namespace keeps.
-- Returns 1 when the event is kept, 2 when it was kept before, or 0 when there are too many.
local function keep_event(keys, args)
  local time, member = now(), args[1] .. ' ' .. args[2]
  local oldest = decimal(time - args[4])
  redis.call('ZREMRANGEBYSCORE', keys[1], '-inf', oldest)
  if redis.call('EXISTS', keys[3]) == 1 or redis.call('ZSCORE', keys[1], member) then return 2 end
  if redis.call('ZCARD', keys[1]) >= tonumber(args[5]) then return 0 end
  redis.call('XADD', keys[2], 'MINID', oldest, '*', 'id', args[2])
  redis.call('ZADD', keys[1], decimal(time), member)
  redis.call('SET', keys[3], args[3])
  for _, key in ipairs(keys) do redis.call('PEXPIRE', key, args[4]) end
  return 1
end

-- Notes that a plan has taken a kept event.
-- KEYS[1] what the namespace keeps and no plan has taken  [2] what was taken.
-- ARGV[1] topic and id  [2] how long events are kept, ms  [3] how many that were taken stay.
-- Returns the topics and ids of those that are too many.
local function take_event(keys, args)
  local time = redis.call('ZSCORE', keys[1], args[1])
  if not time then return {} end
  redis.call('ZREM', keys[1], args[1])
  redis.call('ZADD', keys[2], time, args[1])
  redis.call('PEXPIRE', keys[2], args[2])
  local over = redis.call('ZCARD', keys[2]) - tonumber(args[3])
  if over <= 0 then return {} end
  local oldest = redis.call('ZRANGE', keys[2], 0, over - 1)
  redis.call('ZREMRANGEBYRANK', keys[2], 0, over - 1)
  return oldest
end

-- Records a worker's heartbeat at the server's time, and forgets workers of long ago.
-- KEYS[1] workers  [2] their heartbeats. ARGV[1] worker  [2] heartbeat  [3] how long to remember, ms. Returns the time.
local function record_worker_heartbeat(keys, args)
  local time = now()
  redis.call('HSET', keys[2], args[1], args[2])
  redis.call('ZADD', keys[1], decimal(time), args[1])
  local old = redis.call('ZRANGEBYSCORE', keys[1], '-inf', decimal(time - args[3]), 'LIMIT', 0, 100)
  if #old > 0 then
    redis.call('HDEL', keys[2], unpack(old))
    redis.call('ZREM', keys[1], unpack(old))
  end
  return decimal(time)
end

-- Records a scheduler's heartbeat at the server's time, unless it is new among schedulers that write logs of another
-- format; forgets schedulers of long ago, and names at a time to come. A build that tells no format has format 0.
-- KEYS[1] schedulers  [2] the formats of their logs. ARGV[1] scheduler  [2] its format  [3] age ms
-- [4] how long to remember, ms. Returns those younger than the age, each followed by its format; then when the scheduler
-- was recorded before and now, empty if it was not or is not.
local function record_scheduler_heartbeat(keys, args)
  local id, format, time = args[1], args[2], now()
  local before = redis.call('ZSCORE', keys[1], id)
  local function forget(scheduler)
    redis.call('ZREM', keys[1], scheduler)
    redis.call('HDEL', keys[2], scheduler)
  end
  for _, range in ipairs { { '-inf', decimal(time - args[4]) }, { decimal(time + args[4]), '+inf' } } do
    for _, scheduler in ipairs(redis.call('ZRANGEBYSCORE', keys[1], range[1], range[2])) do forget(scheduler) end
  end
  local found, is_known, has_others = {}, false, false
  for _, scheduler in ipairs(redis.call('ZRANGEBYSCORE', keys[1], '(' .. decimal(time - args[3]), '+inf')) do
    local its_format = redis.call('HGET', keys[2], scheduler) or '0'
    if scheduler == id then
      is_known = its_format == format
    else
      has_others = has_others or its_format ~= format
      found[#found + 1] = scheduler
      found[#found + 1] = its_format
    end
  end
  if has_others and not is_known then
    forget(id)
    return { found, '', '' }
  end
  redis.call('ZADD', keys[1], decimal(time), id)
  redis.call('HSET', keys[2], id, format)
  found[#found + 1] = id
  found[#found + 1] = format
  return { found, before or '', decimal(time) }
end

-- Whether a commit could be written now: the server refuses the call itself when it takes no writes.
-- KEYS[1] a key of no other use. KEYS[2…] the keys of each shard, in the order of `commit`, then others.
-- ARGV: type of each of those others.
-- Returns '', 'NOPERM …' with a command, or 'TYPE …': number of a key, what it is and what it should be, for each.
local function probe(keys, args)
  local others = #keys - #args
  for _, words in ipairs {
    { 'HSET', keys[2], 'f', 'v' }, { 'SADD', keys[3], 'v' }, { 'SREM', keys[3], 'v' }, { 'ZADD', keys[4], '1', 'v' },
    { 'SET', keys[5], 'v' }, { 'XADD', keys[6], '*', 'f', 'v' }, { 'XTRIM', keys[6], 'MINID', '0' },
    { 'SET', keys[7], 'v' }, { 'XADD', keys[8], '*', 'f', 'v' }, { 'XTRIM', keys[8], 'MINID', '0' },
    { 'XACK', keys[6], 'workers', '0-0' }, { 'PEXPIRE', keys[5], '1' },
  } do
    if not redis.acl_check_cmd(unpack(words)) then return 'NOPERM ' .. words[1] end
  end
  redis.call('SET', keys[1], decimal(now()), 'PX', 60000)
  local found = { 'TYPE' }
  for place = 2, #keys do
    local wanted = args[place - others] or TYPES[(place - 2) % FIXED + 1]
    local is = redis.call('TYPE', keys[place]).ok
    if is ~= 'none' and is ~= wanted then found[#found + 1] = place .. ' ' .. is .. ' ' .. wanted end
  end
  return #found > 1 and table.concat(found, ' ') or ''
end

local function define(name, callback, flags)
  redis.register_function { function_name = 'goalmill_' .. name .. BUILD, callback = callback, flags = flags }
end

define('send', send, { 'allow-oom' })
define('extend', extend, { 'allow-oom' })
if BUILD == '' then return end

-- Memory may be short where refusing would stop running plans; `install` and `answer` are refused then.
define('commit', commit, { 'allow-oom' })
define('acquire', acquire, { 'allow-oom' })
define('renew', renew, { 'allow-oom' })
define('release', release, { 'allow-oom' })
define('install', install, {})
define('trim', trim, { 'allow-oom' })
define('discard', discard, { 'allow-oom' })
define('remove_type', remove_type, { 'allow-oom' })
define('answer', answer, {})
define('refuse', refuse, {})
define('put_result', put_result, {})
define('settle', settle, { 'allow-oom' })
define('prune', prune, { 'allow-oom' })
define('pull', pull, { 'allow-oom' })
define('queues', queues, { 'no-writes' })
define('probe', probe, { 'allow-oom' })
define('cancel', cancel, { 'allow-oom' })
define('recent', recent, { 'no-writes' })
define('keep_event', keep_event, {})
define('take_event', take_event, { 'allow-oom' })
define('record_worker_heartbeat', record_worker_heartbeat, { 'allow-oom' })
define('record_scheduler_heartbeat', record_scheduler_heartbeat, { 'allow-oom' })
