import Common
import Loop
import Radio

/// Gives a request its answer: nil, or what it is refused with. Only the first one counts.
typealias AirAnswer = @LoopActor (ATTError?) -> Void

/// Who answers for an application: the delegate of a service, or a program at the other end of the hub's socket.
@LoopActor
protocol AirAnswerer: AnyObject {
  func linkOpened(_ link: LinkID, address: BluetoothAddress)
  func linkChanged(_ link: LinkID, mtu: Int)
  /// `answer` is nil for a command.
  func written(_ value: [UInt8], to characteristic: CharacteristicID, on link: LinkID, answer: AirAnswer?)
  func linkClosed(_ link: LinkID)
}

/// An application that a node serves.
@LoopActor
final class AirApplication {
  let services: [GATTService]
  let properties: [CharacteristicID: GATTCharacteristic.Properties]
  private var answerer: (any AirAnswerer)?
  private var links: Set<LinkID> = []

  init(_ application: GATTApplication, _ answerer: any AirAnswerer) {
    services = application.services
    self.answerer = answerer
    var properties: [CharacteristicID: GATTCharacteristic.Properties] = [:]
    for service in application.services {
      for characteristic in service.characteristics {
        let id = CharacteristicID(service: service.uuid, characteristic: characteristic.uuid)
        properties[id] = characteristic.properties
      }
    }
    self.properties = properties
  }

  /// Nothing is reported any more.
  func close() {
    answerer = nil
  }

  /// Makes a link known to it, once.
  func introduce(_ link: LinkID, address: BluetoothAddress, mtu: Int?) {
    guard answerer != nil, links.insert(link).inserted else { return }
    answerer?.linkOpened(link, address: address)
    if let mtu { answerer?.linkChanged(link, mtu: mtu) }
  }

  func linkChanged(_ link: LinkID, mtu: Int) {
    guard links.contains(link) else { return }
    answerer?.linkChanged(link, mtu: mtu)
  }

  func written(_ value: [UInt8], to characteristic: CharacteristicID, on link: LinkID, answer: AirAnswer?) {
    if let answerer {
      answerer.written(value, to: characteristic, on: link, answer: answer)
    } else {
      answer?(.unlikely)
    }
  }

  func linkClosed(_ link: LinkID) {
    guard links.remove(link) != nil else { return }
    answerer?.linkClosed(link)
  }
}

/// Answers with what a delegate throws. One that is gone refuses everything.
@LoopActor
final class DelegateAnswerer: AirAnswerer {
  private weak var delegate: (any GATTServerDelegate)?

  init(_ delegate: any GATTServerDelegate) {
    self.delegate = delegate
  }

  func linkOpened(_ link: LinkID, address: BluetoothAddress) {
    delegate?.linkOpened(link, address: address)
  }

  func linkChanged(_ link: LinkID, mtu: Int) {
    delegate?.linkChanged(link, mtu: mtu)
  }

  func written(_ value: [UInt8], to characteristic: CharacteristicID, on link: LinkID, answer: AirAnswer?) {
    guard let delegate else {
      answer?(.unlikely)
      return
    }
    do throws(ATTError) {
      try delegate.written(value, to: characteristic, on: link)
      answer?(nil)
    } catch {
      answer?(error)
    }
  }

  func linkClosed(_ link: LinkID) {
    delegate?.linkClosed(link)
  }
}
