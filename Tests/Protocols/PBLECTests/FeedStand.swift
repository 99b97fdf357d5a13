import Common
import Crypto

@testable import PBLEC

/// An engine with a clock and a calendar, and the actions that it returned.
struct FeedStand {
  var engine: BroadcastEngine
  var now: Instant
  /// 2026-03-09, noon UTC.
  var time = CalendarTime(milliseconds: 1_773_057_600_000, day: CalendarDay(20_521))
  /// All actions of the engine until now.
  var actions: [BroadcastEngine.Action] = []

  init(
    ledger: NotificationRecord = NotificationRecord(), seed: UInt64 = 1, followsAddresses: Bool = false,
    at now: Instant = .zero.advanced(by: .seconds(100))
  ) {
    self.now = now
    var configuration = BroadcastEngine.Configuration()
    configuration.followsAddresses = followsAddresses
    engine = BroadcastEngine(configuration: configuration, ledger: ledger, random: SeededRandom(seed: seed), at: now)
  }

  /// One AD structure: a complete local name.
  static func name(_ text: String) -> [UInt8] {
    [UInt8(1 + text.utf8.count), MessagePacket.completeName] + Array(text.utf8)
  }

  mutating func pass(_ seconds: Double) { now = now.advanced(by: .milliseconds(Int64(seconds * 1000))) }

  /// - Returns: the texts that were new.
  @discardableResult
  mutating func hear(_ data: [UInt8], from address: UInt64, rssi: Int? = -60) -> [String] {
    let actions = engine.hear(data, from: AdvertiserID(rawValue: address), rssi: rssi, at: now, time: time)
    self.actions += actions
    return actions.compactMap { if case .heard(let message) = $0 { message.text.string } else { nil } }
  }

  /// - Returns: whether the message was new.
  @discardableResult
  mutating func hear(_ digit: Int, _ text: String, from address: UInt64 = 1, rssi: Int? = -60) -> Bool {
    !hear([2, 1, 0x1A] + Self.name("~\(digit)\(text)"), from: address, rssi: rssi).isEmpty
  }

  /// - Returns: whether the beacon was reported.
  mutating func hear(_ beacon: NotifyBeacon, from address: UInt64 = 9) -> Bool {
    let before = engine.counters.notifications
    hear(beacon.bytes, from: address)
    return engine.counters.notifications > before
  }

  @discardableResult
  mutating func handle(_ event: BroadcastEngine.Event) -> [BroadcastEngine.Action] {
    let actions = engine.handle(event, at: now)
    self.actions += actions
    return actions
  }

  /// - Returns: the number; nil if the text was refused.
  @discardableResult
  mutating func send(_ text: String) throws(BroadcastError) -> UInt64 {
    let (number, actions) = try engine.send(try MessageText(text), at: now)
    self.actions += actions
    return number
  }

  mutating func notify() throws(BroadcastError) {
    actions += try engine.notify(at: now, time: time)
  }

  // MARK: Errors of requests; nil for success

  mutating func refusedSend(_ text: String) -> BroadcastError? {
    do throws(BroadcastError) { try send(text) } catch { return error }
    return nil
  }

  mutating func refusedCancel(_ number: UInt64) -> BroadcastError? {
    do throws(BroadcastError) { actions += try engine.cancel(number, at: now) } catch { return error }
    return nil
  }

  mutating func refusedNotify() -> BroadcastError? {
    do throws(BroadcastError) { try notify() } catch { return error }
    return nil
  }

  /// The next packet to broadcast that was not taken yet.
  mutating func takeTransmission() -> (number: UInt64, packet: MessagePacket)? {
    for (index, action) in actions.enumerated() {
      guard case .transmit(let number, let packet) = action else { continue }
      actions.remove(at: index)
      return (number, packet)
    }
    return nil
  }

  /// Advances time with a radio that always has a free slot, until nothing waits.
  ///
  /// - Returns: the broadcast packets, each with the time of its beginning.
  mutating func sayAll() -> [(packet: MessagePacket, at: Instant)] {
    var said: [(MessagePacket, Instant)] = []
    for _ in 0..<100 {
      if let (number, packet) = takeTransmission() {
        said.append((packet, now))
        handle(.began(number))
        pass(4)
        handle(.ended(number, wasCutShort: false))
      } else if engine.waiting > 0, let deadline = engine.deadline {
        now = max(now, deadline)
        handle(.timer)
      } else {
        break
      }
    }
    return said
  }
}
