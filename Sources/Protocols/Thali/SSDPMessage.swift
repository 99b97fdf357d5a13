import Bytes
import Common
import Crypto

/// The name of a set of beacons on the network (header USN): a UUID that changes with every change of the beacons, or
/// in `node` a UUID and a generation.
///
///     urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6      sent in `spec`
///     uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6          also read
///     data:f81d4fae-7dec-11d0-a765-00a0c91e6bf6:0        `node`
///
/// Facts: thali.md section 7.
public struct ServiceName: Hashable, Sendable {
  public let uuid: BluetoothUUID
  /// The generation; nil in `spec`.
  public let generation: UInt32?

  public init(uuid: BluetoothUUID, generation: UInt32? = nil) { (self.uuid, self.generation) = (uuid, generation) }

  /// Draws a UUID of version 4 (RFC 9562 section 5.4).
  public init(generation: UInt32? = nil, randomFrom random: inout some RandomSource) {
    let bytes = random.bytes(16)
    func half(_ bytes: ArraySlice<UInt8>) -> UInt64 { bytes.reduce(UInt64(0)) { $0 << 8 | UInt64($1) } }
    let high = half(bytes.prefix(8)) & ~0xF000 | 0x4000
    let low = half(bytes.suffix(8)) & ~(3 << 62) | 2 << 62
    self.init(uuid: BluetoothUUID(high: high, low: low), generation: generation)
  }

  /// Parses a name in any of its forms, in either case; nil for any other text.
  public init?(_ text: String) {
    let parts = text.lowercased().split(separator: ":", omittingEmptySubsequences: false).map(String.init)
    func uuid(_ text: String) -> BluetoothUUID? { text.utf8.count == 36 ? BluetoothUUID(text) : nil }
    switch (parts.first, parts.count) {
    case ("urn", 3):
      guard parts[1] == "uuid", let uuid = uuid(parts[2]) else { return nil }
      self.init(uuid: uuid)
    case ("uuid", 2):
      guard let uuid = uuid(parts[1]) else { return nil }
      self.init(uuid: uuid)
    case ("data", 3):
      guard let uuid = uuid(parts[1]), let generation = UInt32(digits: parts[2]) else { return nil }
      self.init(uuid: uuid, generation: generation)
    default: return nil
    }
  }

  public var text: String {
    generation.map { "data:\(uuid):\($0)" } ?? "urn:uuid:\(uuid)"
  }
}

/// A multicast group of SSDP, at port 1900.
public enum SSDPGroup: Hashable, Sendable, CaseIterable {
  /// The IPv4 group of the protocol, 239.255.255.250.
  case ipv4
  /// The IPv6 group of the protocol, FF02::C, which is valid on one network link.
  case ipv6
  /// The multicast group of phones with an old version of the library, 228.227.226.225.
  case phones

  public static let port: UInt16 = 1900

  /// The address of the group: 239.255.255.250, FF02::C or 228.227.226.225.
  public var address: NetworkAddress {
    switch self {
    case .ipv4: .v4(0xEFFF_FFFA)
    case .ipv6: .v6(high: 0xFF02 << 48, low: 0xC)
    case .phones: .v4(0xE4E3_E2E1)
    }
  }

  /// The value of the header HOST.
  var host: String { self == .ipv6 ? "[FF02::C]:\(Self.port)" : "\(address.urlText):\(Self.port)" }

  public var dialect: Dialect { self == .phones ? .node : .spec }
}

/// A datagram of SSDP that belongs to the protocol. Facts: thali.md section 7.
public enum SSDPMessage: Hashable, Sendable {
  /// The sender has beacons (ssdp:alive).
  case alive(ServiceName, location: String)
  /// The sender has no beacons any more (ssdp:byebye).
  case byebye(ServiceName)
  /// The sender searches for peers, which answer within `maximumWait` seconds. The name is that of the sender's own
  /// beacons, if it has any.
  case search(ServiceName?, maximumWait: Int)
  /// The answer to a search.
  case response(ServiceName, location: String)

  /// The service type in the headers NT and ST.
  public static let serviceType = "http://www.thaliproject.org/ssdp"

  /// Reason why a datagram is dropped.
  public enum Drop: Int, CaseIterable, Error, Hashable, Sendable {
    /// The datagram has more than 1,500 bytes, or is not an HTTP head.
    case malformed
    /// The datagram belongs to another service, as most datagrams on a network do.
    case otherService
    /// The name is missing or has another form.
    case badName
    /// An announcement or an answer has no header LOCATION.
    case noLocation

    /// The name of the reason's counter.
    public var name: String {
      switch self {
      case .malformed: "MalformedDatagrams"
      case .otherService: "OtherServices"
      case .badName: "BadServiceNames"
      case .noLocation: "MissingLocations"
      }
    }
  }

  /// Maximum delay of the answer to a search, in seconds (UPnP Device Architecture 1.1 section 1.3.2).
  static let longestWait = 5

  /// Parses a datagram. Names of headers are compared without regard to case. The empty line at the end may be missing.
  public init(reading datagram: [UInt8]) throws(Drop) {
    guard datagram.count <= Limits.datagramBytes else { throw .malformed }
    let parsed: (head: HTTPHead, count: Int)?
    do throws(HTTPError) {
      parsed = try HTTPHead.read(datagram + Array("\r\n\r\n".utf8))
    } catch {
      throw .malformed
    }
    guard let head = parsed?.head else { throw .malformed }
    switch head.startLine {
    case "NOTIFY * HTTP/1.1":
      guard head.value("NT") == Self.serviceType else { throw .otherService }
      let name = try Self.name(head.value("USN"))
      switch head.value("NTS") {
      case "ssdp:alive": self = .alive(name, location: try Self.location(head))
      case "ssdp:byebye": self = .byebye(name)
      default: throw .otherService
      }
    case "M-SEARCH * HTTP/1.1":
      guard head.value("ST") == Self.serviceType, head.value("MAN") == "\"ssdp:discover\"" else { throw .otherService }
      let wait = head.value("MX").flatMap { UInt16(digits: $0) } ?? 1
      let own = head.value("S")
      self = .search(
        try own.map { (text) throws(Drop) in try Self.name(text) }, maximumWait: min(Int(wait), Self.longestWait))
    default:
      guard head.startLine.hasPrefix("HTTP/1.1 200") else { throw .otherService }
      guard head.value("ST") == Self.serviceType else { throw .otherService }
      self = .response(try Self.name(head.value("USN")), location: try Self.location(head))
    }
  }

  private static func name(_ text: String?) throws(Drop) -> ServiceName {
    guard let name = text.flatMap({ ServiceName($0) }) else { throw .badName }
    return name
  }

  private static func location(_ head: HTTPHead) throws(Drop) -> String {
    guard let location = head.value("LOCATION") else { throw .noLocation }
    return location
  }

  /// Encodes the datagram for a group. Receivers store the content for 60 s in `spec` and for 1,800 s in `node`
  /// (max-age).
  public func bytes(for group: SSDPGroup) -> [UInt8] {
    let type = Self.serviceType
    let cache = HTTPHead.Header("CACHE-CONTROL", "max-age=\(group.dialect == .spec ? 60 : 1800)")
    switch self {
    case .alive(let name, let location):
      return Self.notify(group, "ssdp:alive", name, [.init("LOCATION", location), cache])
    case .byebye(let name): return Self.notify(group, "ssdp:byebye", name, [])
    case .search(let name, let wait):
      return HTTPHead(
        startLine: "M-SEARCH * HTTP/1.1",
        headers: [
          .init("HOST", group.host), .init("MAN", "\"ssdp:discover\""), .init("MX", "\(wait)"), .init("ST", type),
        ] + (name.map { [.init("S", $0.text)] } ?? [])
      ).bytes
    case .response(let name, let location):
      return HTTPHead(
        startLine: "HTTP/1.1 200 OK",
        headers: [
          .init("ST", type), .init("USN", name.text), .init("LOCATION", location), cache, .init("EXT", ""),
        ]
      ).bytes
    }
  }

  private static func notify(
    _ group: SSDPGroup, _ kind: String, _ name: ServiceName, _ more: [HTTPHead.Header]
  ) -> [UInt8] {
    HTTPHead(
      startLine: "NOTIFY * HTTP/1.1",
      headers: [
        .init("HOST", group.host), .init("NT", serviceType), .init("NTS", kind), .init("USN", name.text),
      ] + more
    ).bytes
  }
}
