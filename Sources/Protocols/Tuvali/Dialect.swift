import Common

/// One of the three released forms of the protocol. They share one design, and differ in UUIDs, first sequence number,
/// encoding of the size, and QR code. Facts: tuvali.md section 0.
public struct Dialect: Hashable, Sendable {
  /// Series of versions that use a dialect; also its name in the configuration.
  public enum Name: String, CaseIterable, Hashable, Sendable {
    case v05 = "0.5"
    case v04 = "0.4"
    case v03 = "0.3"
  }

  /// Encoding of the frame's length in `ResponseSize`.
  public enum SizeEncoding: Hashable, Sendable { case bigEndian, asciiDecimal }

  public let name: Name
  /// Service UUID that is advertised and served.
  public let service: BluetoothUUID
  /// Service data UUID in the scan response.
  public let scanResponse: BluetoothUUID
  /// Sequence number of the first chunk.
  public let firstSequence: Int
  public let sizeEncoding: SizeEncoding
  public let invitationForm: Invitation.Form
  private let uuids: [Characteristic: BluetoothUUID]

  /// UUID of a characteristic in this dialect.
  public func uuid(of characteristic: Characteristic) -> BluetoothUUID {
    // Each dialect's table holds every characteristic; a test verifies this.
    uuids[characteristic] ?? service
  }

  /// Characteristic with this UUID; nil if the dialect has none.
  public func characteristic(for uuid: BluetoothUUID) -> Characteristic? {
    uuids.first { $0.value == uuid }?.key
  }

  public static func named(_ name: Name) -> Dialect {
    switch name {
    case .v05: v05
    case .v04: v04
    case .v03: v03
    }
  }

  /// Releases 0.5.0 to 0.5.2 and iOS 0.5.0, used by current apps.
  public static let v05 = Dialect(
    name: .v05, service: BluetoothUUID(short: 0x0001), scanResponse: BluetoothUUID(short: 0x0002), firstSequence: 1,
    sizeEncoding: .bigEndian, invitationForm: .uri, uuids: openID4VPUUIDs)

  /// Releases 0.4.0 to 0.4.9, with the UUIDs of the published document.
  public static let v04 = Dialect(
    name: .v04, service: BluetoothUUID(short: 0xAB29), scanResponse: BluetoothUUID(short: 0xAB2A), firstSequence: 1,
    sizeEncoding: .bigEndian, invitationForm: .uriWithColon, uuids: documentUUIDs)

  /// Releases 0.3.0 to 0.3.12, from the time of the published document.
  public static let v03 = Dialect(
    name: .v03, service: BluetoothUUID(short: 0xAB29), scanResponse: BluetoothUUID(short: 0xAB2A), firstSequence: 0,
    sizeEncoding: .asciiDecimal, invitationForm: .json, uuids: documentUUIDs)

  private static let documentUUIDs: [Characteristic: BluetoothUUID] = [
    .identify: BluetoothUUID(short: 0x2030),
    .requestSize: BluetoothUUID(short: 0x2031),
    .request: BluetoothUUID(short: 0x2032),
    .responseSize: BluetoothUUID(short: 0x2033),
    .submitResponse: BluetoothUUID(short: 0x2034),
    .transferReportRequest: BluetoothUUID(short: 0x2035),
    .transferReportResponse: BluetoothUUID(short: 0x2036),
    .verificationStatus: BluetoothUUID(short: 0x2037),
    .disconnect: BluetoothUUID(short: 0x2038),
  ]

  /// UUIDs `0000000x-5026-444A-9E0E-D6F2450F3A77`; only the status has its old UUID.
  private static let openID4VPUUIDs: [Characteristic: BluetoothUUID] = [
    .requestSize: draft(0x4),
    .request: draft(0x5),
    .identify: draft(0x6),
    .responseSize: draft(0x7),
    .submitResponse: draft(0x8),
    .transferReportRequest: draft(0x9),
    .transferReportResponse: draft(0xA),
    .verificationStatus: BluetoothUUID(short: 0x2037),
    .disconnect: draft(0xB),
  ]

  private static func draft(_ number: UInt64) -> BluetoothUUID {
    BluetoothUUID(high: number << 32 | 0x5026_444A, low: 0x9E0E_D6F2_450F_3A77)
  }
}
