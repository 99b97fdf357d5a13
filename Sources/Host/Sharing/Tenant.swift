import Common
import Loop
import Radio

/// The shared radio as one service sees and uses it.
@LoopActor
public final class Tenant: Radio {
  /// The service's name, for displays of the radio's use.
  public let name: String
  private let id: LinkPlan.TenantID
  private let radio: SharedRadio
  private var linkHandler: (@LoopActor ([LinkID]) -> LinkID?)?

  init(_ name: String, _ id: LinkPlan.TenantID, of radio: SharedRadio) {
    self.name = name
    self.id = id
    self.radio = radio
  }

  public var status: RadioStatus {
    var status = radio.status
    status.traits.advertisesAll = radio.advertisesAll(of: id)
    return status
  }

  public var tallies: [Tally] { radio.tallies }

  public func onStatus(_ handler: @escaping @LoopActor (RadioStatus) -> Void) -> Registration {
    var told = status.traits.advertisesAll
    let changes = radio.onStatus { [weak self] _ in
      guard let self else { return }
      told = status.traits.advertisesAll
      handler(status)
    }
    let advertising = radio.advertisingObservers.add { [weak self] in
      guard let self, status.traits.advertisesAll != told else { return }
      told.toggle()
      handler(status)
    }
    return Registration {
      changes.cancel()
      advertising.cancel()
    }
  }

  public func advertise(
    _ advertisement: Advertisement, _ terms: AdvertisingTerms, for server: (any GATTServer)?
  ) throws(RadioError) -> Registration {
    try radio.advertise(advertisement, terms, for: (server as? SharedServer)?.id, of: id)
  }

  public func advertisingSet(
    _ terms: AdvertisingTerms, every interval: Duration, resting: AdvertisingData?
  ) throws(RadioError) -> any AdvertisingSet {
    try radio.advertisingSet(terms, every: interval, resting: resting, of: id)
  }

  public var advertisingUse: AdvertisingUse { radio.advertisingUse }

  public func serve(_ application: GATTApplication, delegate: any GATTServerDelegate) -> any GATTServer {
    radio.serve(application, for: id, delegate: delegate)
  }

  public func scan(
    for services: [BluetoothUUID], _ handler: @escaping @LoopActor (ScanEvent) -> Void
  ) throws(RadioError) -> Registration {
    radio.scan(for: services, handler)
  }

  public func listen(
    for patterns: [AdvertisingPattern], _ handler: @escaping @LoopActor (AdvertisingPacket) -> Void
  ) throws(RadioError) -> Registration {
    try radio.listen(for: patterns, handler)
  }

  public func connect(
    to address: BluetoothAddress, _ handler: @escaping @LoopActor (LinkEvent) -> Void
  ) throws(RadioError) -> any Link {
    try radio.connect(to: address, for: id, handler)
  }

  public var publicAddress: BluetoothAddress? { radio.publicAddress }

  public func listen(
    on profile: StreamProfile, _ handler: @escaping @LoopActor (any RadioStream) -> Void
  ) throws(RadioError) -> Registration {
    try radio.listen(on: profile, handler)
  }

  public func connect(
    to address: BluetoothAddress, on profile: StreamProfile,
    then: @escaping @LoopActor (Result<any RadioStream, RadioError>) -> Void
  ) throws(RadioError) -> Registration {
    try radio.connect(to: address, on: profile, for: id, then: then)
  }

  public func allow(_ backlog: Backlog, on link: LinkID) { radio.allow(backlog, on: link, by: id) }

  public func onLinkWanted(_ handler: @escaping @LoopActor ([LinkID]) -> LinkID?) {
    linkHandler = handler
  }

  public func askForQuiet() -> Registration { radio.askForQuiet(for: id) }

  public var isQuietWanted: Bool { radio.isQuietWanted(by: id) }

  public var isPersonAwaited: Bool { radio.isPersonAwaited(besides: id) }

  public func onQuiet(_ handler: @escaping @LoopActor (Bool) -> Void) -> Registration { radio.onQuiet(of: id, handler) }

  func linkWanted(_ links: [LinkID]) -> LinkID? { linkHandler?(links) }
}
