# W1 on Sidekiq: 20,000 independent jobs that do nothing. `sidekiq -r ./sidekiq.rb` works, `ruby sidekiq.rb` submits and waits.
require 'sidekiq'
require 'sidekiq/api'
Sidekiq.logger.level = Logger::WARN

class Noop
  include Sidekiq::Worker
  sidekiq_options queue: 'w1', retry: 0
  def perform(_number); end
end

if $PROGRAM_NAME == __FILE__
  queue = Sidekiq::Queue.new('w1')
  begun = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  20.times { |k| Sidekiq::Client.push_bulk('class' => Noop, 'args' => (0...1000).map { |i| [k * 1000 + i] }) }
  sleep 0.005 until queue.size.zero?
  puts "sidekiq #{(20_000 / (Process.clock_gettime(Process::CLOCK_MONOTONIC) - begun)).round} jobs/s"
end
