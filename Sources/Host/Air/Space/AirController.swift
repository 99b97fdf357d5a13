import Radio

/// What the controller of a node and the driver above it can do: what is scarce on a real radio.
///
/// The defaults are those of a good adapter with a recent BlueZ. Only the number of advertisements is bounded.
public struct AirController: Hashable, Sendable {
  /// How many advertisements can be on the air at one time. At least 1.
  public var advertisingSlots: Int
  /// How many links the controller holds, whoever made them; nil: any number. A full controller answers no peer that
  /// connects: the peer's attempt goes on until its time-out, or until a link has ended.
  public var linkLimit: Int?
  /// Whether the advertisement by which a peer connects ends on the air (docs/facts/bluez.md section 5). It is back when
  /// that link ends, or when the driver puts an advertisement into the slot.
  public var fallsSilent: Bool
  /// Whether the driver puts an advertisement that has fallen silent back on the air at once, as the BlueZ driver does.
  public var renewsAdvertisements: Bool
  /// Whether a value reaches all subscribers of its characteristic, as with BlueZ before 5.76. Characteristics of reach
  /// `.exact` are notified over raw HCI all the same, where there is that.
  public var reachesEverySubscriber: Bool
  /// Bytes of the longest write without response that reaches the application: longer ones are lost, as with BlueZ before 5.69.
  public var longestWrite = ATT.valueLimit
  /// Whether the driver can send a value to a client that did not subscribe.
  public var hasRawHCI: Bool
  /// Whether the driver hands over single packets.
  public var seesPackets: Bool
  /// What the driver says is missing of the packets that it hands over.
  public var packetShortfall: String?
  /// Why the driver, as it says, hands none over for now.
  public var passingDeafness: String?
  /// Why the driver of such a controller hands none over.
  static let deafness = "This node of the simulated air was made deaf to single packets."
  /// How often the node takes a new random address; nil: never by itself.
  public var addressInterval: Duration?
  /// How long an application is being registered before peers can find it.
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
