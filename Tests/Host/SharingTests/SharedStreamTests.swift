import Air
import Common
import Loop
import Radio
import Sharing
import TestSupport
import Testing

@Suite struct SharedStreamTests {
  private static let profile = StreamProfile(name: "Test", services: [BluetoothUUID(short: 0x1101)])

  /// Two machines in virtual time, each with a service of high and one of low priority.
  @LoopActor
  private final class Pair {
    let time = VirtualTime()
    let nodes: [AirRadio]
    let low: [Tenant]
    let high: [Tenant]
    private let radios: [SharedRadio]

    init() {
      let air = AirSpace(scheduler: time, seed: 1)
      nodes = [air.addNode(), air.addNode()]
      radios = nodes.map { [time] in SharedRadio(driver: $0, scheduler: time) }
      low = radios.map { $0.tenant("low", share: .nothing) }
      high = radios.map { $0.tenant("high", share: LinkShare(needs: 1, may: 1, priority: 10)) }
    }
  }

  @Test("Services of two machines can open an RFCOMM stream to the public address that the radio reports")
  @LoopActor
  func stream() async throws {
    EventLoop.shared.runInBackground()
    let pair = Pair()
    var accepted: [BluetoothAddress] = []
    var opened: [BluetoothAddress] = []
    let listening = try pair.low[1].listen(on: Self.profile) { accepted.append($0.address) }
    let address = try #require(pair.low[1].publicAddress)
    let attempt = try pair.low[0].connect(to: address, on: Self.profile) { result in
      if case .success(let stream) = result { opened.append(stream.address) }
    }
    pair.time.advance(by: .seconds(1))
    #expect(opened == [address] && accepted == [pair.low[0].publicAddress].compactMap { $0 })
    withExtendedLifetime((listening, attempt)) {}
  }

  @Test(
    "During a radio inhibit by a service of higher priority no RFCOMM stream is opened, and incoming ones are accepted")
  @LoopActor
  func inhibited() async throws {
    EventLoop.shared.runInBackground()
    let pair = Pair()
    var accepted = 0
    let listening = try pair.low[0].listen(on: Self.profile) { _ in accepted += 1 }
    let quiet = pair.high[0].askForQuiet()
    #expect(throws: RadioError.notReady("Another service needs the radio at the moment.")) {
      _ = try pair.low[0].connect(to: BluetoothAddress(1), on: Self.profile) { _ in }
    }
    let attempt = try pair.low[1].connect(to: try #require(pair.low[0].publicAddress), on: Self.profile) { _ in }
    pair.time.advance(by: .seconds(1))
    #expect(accepted == 1)
    quiet.cancel()
    let own = try pair.low[0].connect(to: BluetoothAddress(1), on: Self.profile) { _ in }
    pair.nodes[0].power = false
    #expect(throws: RadioError.self) {
      _ = try pair.low[0].connect(to: BluetoothAddress(1), on: Self.profile) { _ in }
    }
    withExtendedLifetime((listening, attempt, own)) {}
  }
}
