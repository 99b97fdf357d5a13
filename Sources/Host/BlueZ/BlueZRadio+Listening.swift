import Common
import HCI
import Loop
import Radio

/// Scan results: advertisers as bluetoothd and this driver combine them, or single packets from the kernel.
///
/// The kernel reports packets as Adv Monitor Device Found without a discovery, and as Device Found during a discovery.
extension BlueZRadio {
  /// Why single packets are not reported; nil if they are. The management socket reports each packet, bluetoothd only
  /// changes.
  public var deafness: String? {
    doors.management.way != nil || isDegradable ? nil : shortfallWords.deafness
  }

  public func listen(_ listening: Listening?) {
    scanner.listen(listening)
    lookAfterDaemon()
    statusMayHaveChanged()
  }

  /// Handles an advertiser that the kernel received during a discovery of ours or of another program.
  func found(_ report: AdvertisingReport) {
    guard let packet = AdvertisingPacket(report, at: scheduler.now) else { return }
    delegate?.heard(packet)
  }
}

extension AdvertisingPacket {
  // Flags of Device Found: bits 2 and 5. A kernel before 6.2 does not set bit 5.
  private static let notConnectable: UInt32 = 1 << 2
  private static let scanResponse: UInt32 = 1 << 5

  /// Converts a report of the management socket; nil if the report is not from LE.
  ///
  /// The kernel holds a connectable advertisement until its scan response has arrived, and reports both together. A
  /// report without a flag may contain the advertisement, the scan response, or both.
  fileprivate init?(_ report: AdvertisingReport, at time: Instant) {
    let addressKind: AddressKind
    switch report.kind {
    case .classic: return nil
    case .publicAddress: addressKind = .publicAddress
    case .randomAddress: addressKind = .randomAddress
    }
    let kind: Kind =
      report.flags & Self.scanResponse != 0
      ? .scanResponse : report.flags & Self.notConnectable != 0 ? .nonConnectable : .unknown
    self.init(
      address: report.address, addressKind: addressKind, kind: kind, rssi: report.rssi.map(Int.init), time: time,
      data: report.data)
  }
}
