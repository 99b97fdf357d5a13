import Config
import DBus
import Hosting
import Journal
import Loop
import Radio
import Tool

/// A list of services, with all that follows from it: the configuration, the catalog of messages, the interfaces on the bus,
/// the commands of the tool. Both programs are made from `ServiceList.all`.
public struct ServiceList: Sendable {
  /// The version of both programs.
  public static let version = ManagerFace.version

  public let services: [ListedService]
  private let tools: [ToolPart]

  /// - Parameter tools: what the tool has besides.
  public init(_ services: [ListedService], tools: [ToolPart] = []) {
    self.services = services
    self.tools = tools
  }

  public var kinds: [any Service.Type] { services.map(\.kind) }

  public var toolParts: [ToolPart] { services.map(\.tool) + tools }

  /// The defaults of the house and of all services.
  public var configuration: Configuration {
    Configuration(
      of: "earshotd, Bluetooth proximity services", HouseSettings.sections + kinds.flatMap { $0.sections })
  }

  /// Every kind of line that the house and its services write to the journal; what services share stands there once.
  public var messages: [MessageID] {
    var seen: Set<MessageID> = []
    return (MessageID.house + kinds.flatMap { $0.messages }).filter { seen.insert($0).inserted }
  }

  /// Every object of the house and its services on the bus, as documentation shows it.
  ///
  /// - Parameters:
  ///   - radio: any radio; nothing is done with it.
  ///   - scheduler: any scheduler; nothing is done with it.
  @LoopActor
  public func objects(radio: any Radio, scheduler: any Scheduler) -> [DescribedObject] {
    let manager = ManagerFace.interface(radio, services: [], calls: { [] })
    return [DescribedObject(ManagerFace.path.string, manager)]
      + kinds.flatMap { $0.objects(radio: radio, scheduler: scheduler) }
  }

  /// Every interface of those objects, once.
  @LoopActor
  public func interfaces(radio: any Radio, scheduler: any Scheduler) -> [Interface] {
    var seen: Set<String> = []
    return objects(radio: radio, scheduler: scheduler).map(\.interface).filter { seen.insert($0.name).inserted }
  }
}
