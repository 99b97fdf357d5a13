import Common
import Glibc
import Loop
import Radio
import TestSupport
import Testing

@testable import Air

@Suite(.serialized, .timeLimit(.minutes(10))) struct ScaleTests {
  @Test("100 scanning nodes receive 1,000 advertisers within one advertising interval")
  func thousand() async {
    await onLoop {
      let time = VirtualTime()
      let air = AirSpace(scheduler: time, seed: 1)
      let count = Counter()
      var kept: [Registration] = []
      for number in 0..<1000 {
        let node = air.addNode()
        kept.append(node.advertise(advertisement("n\(number)")))
        if number % 10 == 0 { kept.append(node.scan(for: [service]) { _ in count.value += 1 }) }
      }
      time.advance(by: .milliseconds(200))
      #expect(count.value == 100 * 999)
      kept.removeAll()
    }
  }

  @Test("A value that is forwarded around a ring of 1,000 linked nodes returns to its sender")
  func ring() async throws {
    try await onLoop {
      let time = VirtualTime()
      let air = AirSpace(scheduler: time, seed: 1)
      let nodes = (0..<1000).map { _ in air.addNode() }
      var kept: [AnyObject] = []
      var clients: [Client] = []
      let count = Counter()
      for (index, node) in nodes.enumerated() {
        let recorder = Recorder()
        kept += [recorder, node.serve(application, delegate: recorder), node.advertise(advertisement())]
        let client = Client()
        try client.connect(node, to: nodes[(index + 1) % nodes.count].address)
        clients.append(client)
        recorder.onCall = {
          guard case .written = recorder.calls.last else { return }
          count.value += 1
          if index != 0 { clients[index].link?.write([1], to: submit, as: .command) }
        }
      }
      time.advance(by: .seconds(1))
      #expect(clients.count { $0.isConnected } == 1000)
      clients[0].link?.write([1], to: submit, as: .command)
      time.advance(by: .seconds(10))
      #expect(count.value == 1000)
    }
  }

  @Test("Sending 1 MiB in values of 509 bytes without latency needs two simulation events per value")
  func mebibyte() async throws {
    try await onLoop {
      let pair = try Pair(AirConditions(latency: .zero))
      let link = try pair.link
      var left = 2060
      let value = [UInt8](repeating: 7, count: 509)
      pair.client.onEvent = { event in
        guard case .written = event, left > 0 else { return }
        left -= 1
        link.write(value, to: submit, as: .command)
      }
      link.write(value, to: submit, as: .command)
      var events = 0
      while pair.recorder.received < 2061, pair.time.runNext() { events += 1 }
      #expect(pair.recorder.received == 2061)
      #expect(events <= 2 * 2061, "\(events) events")
    }
  }

  @LoopActor
  private final class Counter {
    var value = 0
  }
}
