import Air
import Common
import Crypto
import Loop
import Radio
import TestSupport
import Transfers
import Tuvali

/// A verifier that shows a valid QR code, and answers a wallet at random.
@LoopActor
final class Impostor: GATTServerDelegate {
  let uri: String
  private let dialect: Dialect
  private let time: VirtualTime
  private var dice: Dice
  private var server: (any GATTServer)?
  private var advertisement: Registration?
  private var timers: [Registration] = []
  private var left: Int
  /// Probabilities, in tenths, with which the impostor refuses a request, and gives a valid answer.
  private let refusals: Int
  private let sense: Int

  init(on radio: any Radio, time: VirtualTime, seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    dice = Dice(seed)
    let key = X25519.PrivateKey(randomFrom: &random).publicKey
    let invitation = try Invitation(name: "OVPMOSIP", key: key)
    let name = Dialect.Name.allCases[dice.below(3)]
    dialect = Dialect.named(name)
    uri = invitation.text(as: dialect.invitationForm)
    refusals = [0, 0, 1, 5][dice.below(4)]
    sense = [0, 3, 7, 10][dice.below(4)]
    left = dice.below(200)
    self.time = time
    advertisement = try radio.advertise(dialect.advertisement(for: invitation))
    server = radio.serve(GATTApplication(services: services()), delegate: self)
  }

  func stop() {
    server?.close()
    (server, advertisement, timers) = (nil, nil, [])
  }

  /// Services in which something is sometimes missing, superfluous or not permitted.
  private func services() -> [GATTService] {
    var services = [dialect.gattService]
    switch dice.below(10) {
    case 0: services = []
    case 1: services[0].characteristics.remove(at: dice.below(services[0].characteristics.count))
    case 2: services[0].characteristics[dice.below(9)].properties = []
    case 3: services += [dialect.gattService]
    case 4: services += (0..<50).map { GATTService(uuid: BluetoothUUID(short: 0x3000 + $0), characteristics: []) }
    case 5: services[0].characteristics = services[0].characteristics.reversed()
    default: break
    }
    return services
  }

  func linkOpened(_ link: LinkID, address: BluetoothAddress, since: Instant) { disturb(link) }

  func linkChanged(_ link: LinkID, mtu: Int) { disturb(link) }

  func linkClosed(_ link: LinkID) { timers = [] }

  func written(_ value: [UInt8], to id: CharacteristicID, on link: LinkID) throws(ATTError) {
    disturb(link)
    if dialect.characteristic(for: id.characteristic) == .transferReportRequest, dice.below(10) < sense {
      later { [weak self] in self?.report(to: link) }
    }
    if dice.below(10) < refusals {
      throw [.busy, .unlikely, .invalidLength, .insufficientResources][dice.below(4)]
    }
  }

  /// Sends a value that resembles a report.
  private func report(to link: LinkID) {
    let report: [UInt8]
    switch dice.below(4) {
    case 0: report = TransferReport.success.bytes
    case 1:
      let some = (0..<dice.below(250)).map { _ in dice.below(1 << 16) }
      report = TransferReport.missing(some, totalPages: dice.below(1 << 16)).bytes
    default: report = TransferReport.missing([1, 1, 2, 3].map { $0 + dice.below(3) }, totalPages: 1).bytes
    }
    notify(report, of: .transferReportResponse, to: link)
    if dice.below(4) == 0 { notify([UInt8(dice.below(4))], of: .verificationStatus, to: link) }
  }

  /// Sends a value that does not belong to the transfer.
  private func disturb(_ link: LinkID) {
    guard left > 0, dice.below(3) == 0 else { return }
    left -= 1
    later { [weak self] in
      guard let self else { return }
      let characteristic = Characteristic.allCases[dice.below(9)]
      switch dice.below(12) {
      case 0: server?.disconnect(link)
      case 1: notify([1], of: .disconnect, to: link)
      default: notify(dice.bytes(dice.below(dice.below(5) == 0 ? 600 : 8)), of: characteristic, to: link)
      }
      disturb(link)
    }
  }

  private func notify(_ value: [UInt8], of characteristic: Characteristic, to link: LinkID) {
    server?.notify(value, of: dialect.id(of: characteristic), to: .link(link))
  }

  private func later(_ body: @escaping @LoopActor () -> Void) {
    let delay = Duration.milliseconds([0, 1, 50, 4000, 29_000][dice.below(5)])
    timers.append(time.schedule(after: delay, body))
  }
}
