import Common
import Glibc
import Loop
import Testing

@Suite(.timeLimit(.minutes(10))) struct EventLoopTests {
  @Test("Closures and jobs submitted by one thread run in order on the event loop's thread")
  func order() async {
    await onLoop {}
    let notes = Notes()
    await withCheckedContinuation { continuation in
      for number in 0..<1000 {
        EventLoop.shared.soon {
          notes.lines.append(EventLoop.shared.isCurrent ? "\(number)" : "stray")
        }
      }
      EventLoop.shared.soon { continuation.resume() }
    }
    let lines = await LoopActor.run { notes.lines }
    #expect(lines == (0..<1000).map { "\($0)" } && !EventLoop.shared.isCurrent)
  }

  @Test("A closure that is submitted from the event loop runs after the current call")
  func soon() async {
    await onLoop {
      let notes = Notes()
      await called { done in
        EventLoop.shared.soon {
          notes.lines.append("a")
          done()
        }
        notes.lines.append("b")
      }
      #expect(notes.lines == ["b", "a"])
    }
  }

  @Test("A function isolated to the loop's actor is not interrupted by work of other threads")
  func atomicity() async {
    await onLoop {}
    let counter = Counter()
    await withTaskGroup(of: Void.self) { group in
      for _ in 0..<50 {
        group.addTask {
          for _ in 0..<20 {
            await LoopActor.run {
              let before = counter.value
              sched_yield()
              counter.value = before + 1
            }
          }
        }
      }
    }
    let value = await LoopActor.run { counter.value }
    #expect(value == 1000)
  }

  @Test("80,000 wake-ups of the event loop from four tasks are all handled")
  func wakeups() async {
    await onLoop {}
    await withTaskGroup(of: Void.self) { group in
      for _ in 0..<4 {
        group.addTask {
          for _ in 0..<20_000 {
            await withCheckedContinuation { continuation in
              EventLoop.shared.soon { continuation.resume() }
            }
          }
        }
      }
    }
  }

  @Test("`EventLoop.run` returns the value or rethrows the error of its closure")
  func results() async {
    struct Refusal: Error {}
    await onLoop {}
    #expect(await LoopActor.run { LoopActor.assumeIsolated { EventLoop.shared.isCurrent } })
    await #expect(throws: Refusal.self) { try await LoopActor.run { throw Refusal() } }
  }

  @Test("An event loop timer fires once and not early, and one in the past fires as soon as possible")
  func timers() async {
    await onLoop {
      let loop = EventLoop.shared
      let notes = Notes()
      let start = loop.now
      var kept: [Registration] = []
      await called { done in
        for milliseconds in [30, -5000, 10, 20, 0] {
          kept.append(
            loop.schedule(after: .milliseconds(milliseconds)) {
              let isDue = loop.now >= start.advanced(by: .milliseconds(milliseconds))
              notes.lines.append("\(milliseconds)\(isDue ? "" : " early")")
              if notes.lines.count == 5 { done() }
            })
        }
        #expect(notes.lines.isEmpty)
      }
      #expect(Set(notes.lines) == ["-5000", "0", "10", "20", "30"])
      kept.removeAll()
    }
  }

  @Test("An event loop timer that is cancelled or dropped does not fire")
  func cancelledTimers() async {
    await onLoop {
      let loop = EventLoop.shared
      let notes = Notes()
      let cancelled = loop.schedule(after: .milliseconds(1)) { notes.lines.append("cancelled") }
      cancelled.cancel()
      _ = loop.schedule(after: .milliseconds(1)) { notes.lines.append("dropped") }
      var last: Registration?
      await called { done in last = loop.schedule(after: .milliseconds(10), done) }
      #expect(notes.lines.isEmpty)
      withExtendedLifetime(last) {}
    }
  }

  @Test("The event loop's clock never goes backwards")
  func monotony() async {
    await onLoop {
      var last = EventLoop.shared.now
      for _ in 0..<10_000 {
        let now = EventLoop.shared.now
        #expect(now >= last)
        last = now
      }
    }
  }

  @Test("Offloaded work runs on another thread, and its result arrives on the event loop")
  func offloading() async {
    await onLoop {
      let notes = Notes()
      await called { done in
        EventLoop.shared.offload({ EventLoop.shared.isCurrent }) { wasOnLoop in
          notes.lines.append("\(wasOnLoop) \(EventLoop.shared.isCurrent)")
          done()
        }
        #expect(notes.lines.isEmpty)
      }
      #expect(notes.lines == ["false true"])
    }
  }

  @Test("A file descriptor is watched for the requested events while its registration exists")
  func watching() async throws {
    try await onLoop {
      var ends: [Int32] = [0, 0]
      // Close-on-exec: otherwise the end that is closed below stays open in child processes of other tests.
      try #require(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends) == 0)
      let (reading, writing) = (ends[0], ends[1])
      let notes = Notes()
      var watch: Registration?
      await called { done in
        watch = EventLoop.shared.watch(reading, for: .readable) { ready in
          var byte: UInt8 = 0
          read(reading, &byte, 1)
          notes.lines.append("\(byte) \(ready.contains(.readable))")
          if byte == 2 { done() }
        }
        write(writing, [1, 2] as [UInt8], 2)
        #expect(notes.lines.isEmpty)
      }
      #expect(notes.lines == ["1 true", "2 true"])
      watch?.cancel()
      write(writing, [3] as [UInt8], 1)
      await called { done in
        watch = EventLoop.shared.watch(writing, for: .writable) { ready in
          #expect(ready == .writable)
          done()
          watch = nil
        }
      }
      #expect(notes.lines.count == 2)
      close(writing)
      await called { done in
        watch = EventLoop.shared.watch(reading, for: .readable) { ready in
          #expect(ready.contains(.hungUp))
          done()
          watch = nil
        }
      }
      close(reading)
    }
  }

  @Test("Each Unix signal causes a call on the event loop")
  func signals() async {
    await onLoop {
      let notes = Notes()
      let registration = EventLoop.shared.on(signal: SIGUSR2) { notes.lines.append("signal") }
      for count in 1...2 {
        pthread_kill(pthread_self(), SIGUSR2)
        while notes.lines.count < count { await called { done in EventLoop.shared.soon { done() } } }
      }
      #expect(notes.lines == ["signal", "signal"])
      registration.cancel()
    }
  }

  @LoopActor
  private final class Counter {
    nonisolated init() {}
    var value = 0
  }
}
