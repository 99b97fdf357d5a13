import Radio

/// The capabilities of a node's controller and driver, which are limited on a real radio.
///
/// The defaults describe a good adapter with a recent BlueZ: only the number of advertisements is limited.
public struct AirController: Hashable, Sendable {
  /// Maximum advertisements at one time. At least 1.
  public var advertisingSlots: Int
  /// Maximum links, in either role; nil means no limit. A full controller does not answer a connecting peer. The peer's
  /// attempt continues until its timeout, or until a link has ended.
  public var linkLimit: Int?
  /// Whether an advertisement ends when a peer connects by it (docs/facts/bluez.md section 5). It resumes when that
  /// link ends, or when the driver sets the slot again.
  public var fallsSilent: Bool
  /// Whether the driver restarts such an advertisement immediately, as the BlueZ driver does.
  public var renewsAdvertisements: Bool
  /// Whether a value reaches all subscribers of its characteristic, as with BlueZ before 5.76. Characteristics with
  /// reach `.exact` are still notified individually over raw HCI, if available.
  public var reachesEverySubscriber: Bool
  /// Maximum bytes of a write without response that reaches the application. Longer ones are lost, as with BlueZ before
  /// 5.69.
  public var longestWrite = ATT.valueLimit
  /// Whether the driver can send a value to a client that did not subscribe.
  public var hasRawHCI: Bool
  /// Whether the driver reports each advertising packet by itself.
  public var seesPackets: Bool
  /// The driver's sentence about what is missing from the reported packets; nil if nothing is.
  public var packetShortfall: String?
  /// The driver's reason why it reports no packets for the time being; nil if it does.
  public var passingDeafness: String?
  /// The driver's reason why it opens no streams; nil if it does.
  public var connectingShortfall: String?
  /// The sentence of a driver that never reports single packets.
  static let deafness = "This simulated adapter does not report single packets."
  /// Interval between new random addresses of the node; nil means never.
  public var addressInterval: Duration?
  /// Time from the registration of an application until peers can discover it.
  public var servingDelay: Duration

  public init(
    advertisingSlots: Int = 3, linkLimit: Int? = nil, fallsSilent: Bool = false, renewsAdvertisements: Bool = true,
    reachesEverySubscriber: Bool = false, hasRawHCI: Bool = true, seesPackets: Bool = true,
    addressInterval: Duration? = nil, servingDelay: Duration = .zero
  ) {
    self.advertisingSlots = advertisingSlots
    self.linkLimit = linkLimit
    self.fallsSilent = fallsSilent
    self.renewsAdvertisements = renewsAdvertisements
    self.reachesEverySubscriber = reachesEverySubscriber
    self.hasRawHCI = hasRawHCI
    self.seesPackets = seesPackets
    self.addressInterval = addressInterval
    self.servingDelay = servingDelay
  }
}
