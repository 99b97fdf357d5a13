import Common
import Radio
import Testing

@testable import Sharing

@Suite("The table of scan results")
struct ScanResultTableTests {
  private static let service = BluetoothUUID(short: 0xFD)
  private static let scan = ScanResultTable.ScanID(number: 1)

  private static func at(_ milliseconds: Int) -> Instant { Instant.zero.advanced(by: .milliseconds(milliseconds)) }

  private static func scanResult(
    _ number: UInt64, _ services: [BluetoothUUID] = [service], name: String? = nil, rssi: Int? = nil
  ) -> ScanResult {
    ScanResult(address: BluetoothAddress(number), serviceUUIDs: services, serviceData: [], localName: name, rssi: rssi)
  }

  private static func table() -> ScanResultTable {
    var table = ScanResultTable()
    _ = table.add(scan, for: [service], at: .zero)
    return table
  }

  private static func report(_ event: ScanEvent, _ scan: ScanResultTable.ScanID = scan) -> ScanResultTable.Report {
    ScanResultTable.Report(scan: scan, event: event)
  }

  @Test(
    "A scan result is reported when an advertiser is new or changed, and then once a second with its RSSI"
  )
  func repetition() {
    var table = Self.table()
    #expect(
      table.hear(Self.scanResult(1, rssi: -40), at: .zero) == [Self.report(.sighted(Self.scanResult(1, rssi: -40)))])
    #expect(table.hear(Self.scanResult(1, rssi: -41), at: Self.at(999)) == [])
    #expect(
      table.hear(Self.scanResult(1, rssi: -42), at: Self.at(1000)) == [
        Self.report(.sighted(Self.scanResult(1, rssi: -42)))
      ]
    )
    #expect(
      table.hear(Self.scanResult(1, name: "new"), at: Self.at(1001))
        == [Self.report(.sighted(Self.scanResult(1, name: "new")))])
  }

  @Test("Each scan gets the advertisers of its services, and a scan without services gets all")
  func filters() {
    var table = Self.table()
    #expect(table.services == [Self.service])
    let all = ScanResultTable.ScanID(number: 2)
    #expect(table.add(all, for: [], at: .zero) == [])
    #expect(table.services == [])
    let other = Self.scanResult(2, [BluetoothUUID(short: 1)])
    #expect(table.hear(other, at: .zero) == [Self.report(.sighted(other), all)])
    #expect(table.hear(Self.scanResult(1), at: .zero).map(\.scan) == [Self.scan, all])
    table.remove(all)
    #expect(table.services == [Self.service])
    table.remove(Self.scan)
    #expect(table.services == nil && table.deadline == nil)
  }

  @Test("A scan for a service also gets advertisers that have only service data of this service")
  func serviceData() {
    var table = Self.table()
    let scanResult = ScanResult(
      address: BluetoothAddress(1), serviceUUIDs: [], serviceData: [.init(service: Self.service, bytes: [1])])
    #expect(table.hear(scanResult, at: .zero) == [Self.report(.sighted(scanResult))])
  }

  @Test("A scan that starts later gets the advertisers that are already known")
  func late() {
    var table = Self.table()
    _ = table.hear(Self.scanResult(1), at: .zero)
    let second = ScanResultTable.ScanID(number: 2)
    #expect(
      table.add(second, for: [Self.service], at: Self.at(500)) == [Self.report(.sighted(Self.scanResult(1)), second)])
    #expect(table.hear(Self.scanResult(1), at: Self.at(1200)) == [Self.report(.sighted(Self.scanResult(1)))])
  }

  @Test("An advertiser that is not received for 30 s is reported as lost once, and as new when it returns")
  func losing() {
    var table = Self.table()
    _ = table.hear(Self.scanResult(1), at: .zero)
    _ = table.hear(Self.scanResult(1), at: Self.at(10_000))
    #expect(table.deadline == Self.at(40_000))
    #expect(table.expire(at: Self.at(39_999)) == [])
    #expect(table.expire(at: Self.at(40_000)) == [Self.report(.lost(BluetoothAddress(1)))])
    #expect(table.expire(at: Self.at(80_000)) == [])
    #expect(table.hear(Self.scanResult(1), at: Self.at(80_000)).count == 1)
    #expect(table.loseAll() == [Self.report(.lost(BluetoothAddress(1)))])
  }

  @Test("Each scan is notified once of a lost advertiser, even if another scan has received it again")
  func lostOnce() {
    var table = Self.table()
    let all = ScanResultTable.ScanID(number: 2)
    _ = table.add(all, for: [], at: .zero)
    _ = table.hear(Self.scanResult(1), at: .zero)
    let lost = ScanEvent.lost(BluetoothAddress(1))
    #expect(table.loseAll() == [Self.report(lost), Self.report(lost, all)])
    let changed = Self.scanResult(1, [BluetoothUUID(short: 7)])
    #expect(table.hear(changed, at: Self.at(1000)) == [Self.report(.sighted(changed), all)])
    #expect(table.loseAll() == [Self.report(lost, all)])
  }

  @Test("In a full table of scan results, the advertiser received least recently is reported as lost")
  func crowd() {
    var table = Self.table()
    // The advertiser with the largest address is received first.
    for number in 0..<ScanResultTable.limit {
      _ = table.hear(Self.scanResult(UInt64(ScanResultTable.limit - number)), at: Self.at(number))
    }
    let oldest = BluetoothAddress(UInt64(ScanResultTable.limit))
    let reports = table.hear(Self.scanResult(9999), at: Self.at(1000))
    #expect(reports == [.lost(oldest), .sighted(Self.scanResult(9999))].map { Self.report($0) })
    // An advertiser that matches no scan does not evict a stored one.
    #expect(table.hear(Self.scanResult(5000, [BluetoothUUID(short: 7)]), at: Self.at(1001)) == [])
    #expect(table.loseAll().count == ScanResultTable.limit)
  }
}
