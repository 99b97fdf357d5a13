import Air
import Broadcast
import Common
import Crypto
import Glibc
import HCI
import Loop
import PBLEC
import Radio
import Sharing

/// Reports of advertisers through the engine of the local broadcast channel on one core: processor time, the best of
/// several runs.
@LoopActor
enum FeedBench {
  private static let turns = 5
  private static let reports = 400_000
  private static let senders = 200

  static func run() -> [Figure] {
    var best = (crowd: 0.0, strangers: 0.0, new: 0.0, service: 0.0)
    for _ in 0..<turns {
      best.crowd = max(best.crowd, crowd())
      best.strangers = max(best.strangers, strangers())
      best.new = max(best.new, spoofer())
      best.service = max(best.service, service())
    }
    return [
      .more("broadcast: reports of 200 senders, decode + checks", best.crowd, "1/s", goal: 500_000),
      .more("broadcast: reports of other advertisers ignored", best.strangers, "1/s", goal: 500_000),
      .more("broadcast: messages of new addresses refused", best.new, "1/s", goal: 500_000),
      .less("broadcast: share of a core at 1,333 reports/s", 133_333 / max(1, best.service), "%", goal: 3),
    ]
  }

  /// 200 senders at full rate, 1,333 reports per second: 40 of each message, interleaved, with a text of 24 bytes.
  private static func crowd() -> Double {
    var engine = BroadcastEngine(random: SystemRandom(), at: .zero)
    var now = Instant.zero
    let rounds = reports / senders / 40
    let packets: [[[UInt8]]] = (0..<rounds).map { round in
      (0..<senders).map { report("~\(round % 10)\(100_000_000 + round) of \(10_000_000_000 + $0)") }
    }
    var heard = 0
    let seconds = time {
      for round in packets {
        for copy in 0..<40 {
          for (sender, packet) in round.enumerated() {
            heard +=
              engine.hear(packet, from: AdvertiserID(rawValue: UInt64(sender)), rssi: -60, at: now, time: noon).count
          }
          now = now.advanced(by: copy < 39 ? .milliseconds(100) : .milliseconds(2100))
        }
      }
    }
    return heard > 0 ? Double(rounds * senders * 40) / seconds : 0
  }

  /// Sends equal reports in the kernel's format through a socket, the radio's port and the service; 200 senders at
  /// their rate in virtual time.
  private static func service() -> Double {
    let time = VirtualTime()
    let radio = SharedRadio(driver: AirSpace(scheduler: time, seed: 1).addNode(), scheduler: time)
    let service = BroadcastService(
      radio: radio.tenant("broadcast", share: .nothing), scheduler: time, settings: BroadcastService.Settings(),
      keeper: NotificationStore(directory: "", scheduler: time, disk: time))
    service.start()
    let kernel = ReportedAir()
    var (count, seconds) = (0, 0.0)
    for round in 0..<20 {
      let reports = (0..<senders).map { sender in
        let report = AdvertisingReport(
          address: BluetoothAddress(UInt64(sender)), kind: .randomAddress, rssi: -60, flags: 1 << 2,
          data: report("~\(round % 10)\(100_000_000 + round) of \(10_000_000_000 + sender)"))
        return ManagementEvent.monitoredDeviceFound(MonitoredReport(monitor: 0, report: report)).packet(of: 0).bytes
      }
      for copy in 0..<40 {
        for begin in stride(from: 0, to: senders, by: 50) {
          kernel.tell(reports[begin..<begin + 50])
          seconds += Self.time { count += kernel.take(at: time.now) { radio.heard($0) } }
        }
        time.advance(by: copy < 39 ? .milliseconds(100) : .milliseconds(2100))
      }
    }
    defer { service.stop() }
    return service.state == .listening ? Double(count) / seconds : 0
  }

  /// Processing rate for advertisements of other protocols: names, services, and beacons of other applications.
  private static func strangers() -> Double {
    var engine = BroadcastEngine(random: SystemRandom(), at: .zero)
    var beacon = NotifyBeacon(major: 1, minor: 2).bytes
    beacon[20] ^= 1
    let lists = [
      report("A speaker in the hall"), beacon, [2, 1, 6, 3, 3, 0x2C, 0xFE, 9, 0x16, 0x2C, 0xFE, 1, 2, 3, 4, 5, 6],
      [2, 1, 6, 17, 7] + [UInt8](repeating: 7, count: 16),
    ]
    var heard = 0
    let seconds = time {
      for number in 0..<reports {
        heard +=
          engine.hear(
            lists[number & 3], from: AdvertiserID(rawValue: UInt64(number)), rssi: -60, at: .zero, time: noon
          ).count
      }
    }
    return heard == 0 ? Double(reports) / seconds : 0
  }

  /// Processing rate for reports that each have a new address, while the maximum number of peers is stored.
  private static func spoofer() -> Double {
    var engine = BroadcastEngine(random: SystemRandom(), at: .zero)
    var now = Instant.zero
    let packet = report("~1somebody else, again")
    for address in 0..<Limits.peers {
      _ = engine.hear(packet, from: AdvertiserID(rawValue: UInt64(address)), rssi: -60, at: now, time: noon)
      now = now.advanced(by: .milliseconds(100))
    }
    let seconds = time {
      for number in 0..<reports {
        _ = engine.hear(
          packet, from: AdvertiserID(rawValue: UInt64(1000 + number)), rssi: -60, at: now, time: noon)
      }
    }
    return engine.peersNearby == Limits.peers ? Double(reports) / seconds : 0
  }

  private static let noon = CalendarTime(milliseconds: 1_773_057_600_000, day: CalendarDay(20_521))

  private static func report(_ name: String) -> [UInt8] {
    [2, 1, 6, UInt8(1 + name.utf8.count), MessagePacket.completeName] + Array(name.utf8)
  }

  /// A socket with reports in the kernel's format of the management channel.
  private final class ReportedAir {
    private let socket: HCISocket
    private let kernel: HCISocket
    private var buffer = [UInt8](repeating: 0, count: ManagementPacket.limit)

    init() {
      var ends: [Int32] = [-1, -1]
      let kind = Int32(SOCK_SEQPACKET.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
      socketpair(AF_UNIX, kind, 0, &ends)
      (socket, kernel) = (HCISocket(owning: ends[0]), HCISocket(owning: ends[1]))
    }

    func tell(_ reports: ArraySlice<[UInt8]>) {
      for report in reports { try? kernel.send(report) }
    }

    /// Reads the waiting packets, and parses the reports in them.
    ///
    /// - Returns: number of reports.
    func take(at now: Instant, _ heard: (AdvertisingPacket) -> Void) -> Int {
      var count = 0
      while case .packet(let length) = socket.receive(into: &buffer) {
        guard let packet = try? ManagementPacket(reading: Array(buffer[..<length])),
          case .monitoredDeviceFound(let monitored) = try? ManagementEvent(reading: packet)
        else { continue }
        let report = monitored.report
        heard(
          AdvertisingPacket(
            address: report.address, addressKind: .randomAddress, kind: .nonConnectable,
            rssi: report.rssi.map(Int.init), time: now, data: report.data))
        count += 1
      }
      return count
    }
  }

  private static func time(_ body: () -> Void) -> Double {
    let begin = processorTime()
    body()
    return max(processorTime() - begin, 1e-9)
  }
}
