import Common
import HCI
import Loop
import Radio

/// Advertisers that are heard: put together by bluetoothd and here, or packet by packet from the kernel.
///
/// The kernel tells of packets as Adv Monitor Device Found while no program discovers, and as Device Found while one does.
extension BlueZRadio {
  /// The management socket tells of packets; bluetoothd only of what has changed.
  public var deafness: String? {
    doors.management.way != nil || isDegradable ? nil : shortfallWords.deafness
  }

  public func listen(_ listening: Listening?) {
    scanner.listen(listening)
    lookAfterDaemon()
    statusMayHaveChanged()
  }

  /// The kernel heard an advertiser, for a discovery of ours or of another program.
  func found(_ report: AdvertisingReport) {
    guard let packet = AdvertisingPacket(report, at: scheduler.now) else { return }
    delegate?.heard(packet)
  }
}

extension AdvertisingPacket {
  // Flags of Device Found: bits 2 and 5. A kernel before 6.2 does not set the second one.
  private static let notConnectable: UInt32 = 1 << 2
  private static let scanResponse: UInt32 = 1 << 5

  /// Nil for what was not heard over LE.
  ///
  /// The kernel keeps a connectable advertisement back until its scan response has come, and tells of both as one: what
  /// has no flag may be the one, the other, or both.
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
