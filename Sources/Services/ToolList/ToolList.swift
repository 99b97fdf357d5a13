import Diagnosis
import Listing
import SocialCommands
import Tool

/// All parts of the command-line tool: those of the services in the daemon, and those of the other daemons whose
/// commands link more libraries than the daemon may load.
public enum ToolList {
  public static let parts: [ToolPart] =
    ServiceList.all.toolParts + [
      SocialTool.part,
      DiagnosisTool.part(
        version: ServiceList.version, messages: ServiceList.all.messageNames,
        configuration: ServiceList.all.configuration),
    ]
}
