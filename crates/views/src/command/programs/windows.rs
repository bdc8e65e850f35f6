//! Commands of PowerShell and `cmd.exe`. Sources: the reference of PowerShell 7.5 (Microsoft.PowerShell.Management,
//! Storage, Microsoft.PowerShell.Utility) and "Windows commands", both on learn.microsoft.com.

use super::super::program::{FlagStyle, ProgramAction, ProgramSpec};

/// The parameters that every PowerShell command has.
macro_rules! common {
    ($options:literal) => {
        concat!(
            $options,
            " -Verbose -Debug -ErrorAction= -WarningAction= -ErrorVariable= -OutVariable= -WhatIf? -Confirm?"
        )
    };
}

pub(super) const PROGRAMS: &[ProgramSpec] = &[
    ProgramSpec::new(&["del", "erase"], "/p /f /s /q /a? -Recurse -Force").style(FlagStyle::Cmd),
    ProgramSpec::new(&["rd"], "/s /q -Recurse -Force").style(FlagStyle::Cmd),
    ProgramSpec::new(&["format"], "/q /v? /x /y /p? /fs?").style(FlagStyle::Cmd),
    ProgramSpec::new(&["reg", "bcdedit", "vssadmin", "wmic", "diskpart", "cipher", "takeown", "icacls", "attrib", "schtasks", "net", "sc", "netsh", "taskkill", "robocopy", "rundll32", "certutil", "bitsadmin", "mshta", "regsvr32", "wevtutil", "fsutil"],
        "/f /v= /t= /d= /a /r /q /y /im= /pid= /tn= /tr= /e /s /mir /purge").style(FlagStyle::Cmd),
    ProgramSpec::new(&["Remove-Item", "ri"], common!("-Path= -LiteralPath= -Filter= -Include= -Exclude= -Recurse -Force -Credential= -Stream=")).style(FlagStyle::PowerShell),
    ProgramSpec::new(&["Clear-Content", "clc", "Clear-Item", "cli"], common!("-Path= -LiteralPath= -Filter= -Include= -Exclude= -Force")).style(FlagStyle::PowerShell),
    ProgramSpec::new(&["Move-Item", "Copy-Item", "Rename-Item"], common!("-Path= -LiteralPath= -Destination= -NewName= -Filter= -Include= -Exclude= -Recurse -Force -Container -PassThru")).style(FlagStyle::PowerShell),
    ProgramSpec::new(&["Set-Content", "Add-Content", "Out-File"], common!("-Path= -LiteralPath= -Value= -FilePath= -Encoding= -Append -NoNewline -Force -InputObject=")).style(FlagStyle::PowerShell),
    ProgramSpec::new(&["Get-Content", "Get-ChildItem", "gci"], common!("-Path= -LiteralPath= -Filter= -Include= -Exclude= -Recurse -Force -Name -Raw -Depth= -Directory -File -Hidden -Tail= -TotalCount= -Encoding=")).style(FlagStyle::PowerShell),
    ProgramSpec::new(&["Invoke-WebRequest", "iwr", "Invoke-RestMethod", "irm"], common!("-Uri= -Method= -Body= -Headers= -OutFile= -InFile= -UseBasicParsing -ContentType= -Credential= -UserAgent=")).style(FlagStyle::PowerShell),
    ProgramSpec::new(&["Invoke-Expression", "iex"], common!("-Command=")).style(FlagStyle::PowerShell).language("powershell").action(ProgramAction::Joined { operands: 0 }),
    ProgramSpec::new(&["Format-Volume", "Clear-Disk", "Initialize-Disk", "Remove-Partition", "Remove-Volume"], common!("-DriveLetter= -Number= -DiskNumber= -PartitionNumber= -FileSystem= -RemoveData -RemoveOEM -Full -Force")).style(FlagStyle::PowerShell),
    ProgramSpec::new(&["Stop-Process", "spps", "Stop-Service", "Restart-Service", "Remove-Service"], common!("-Id= -Name= -Force -PassThru -NoWait")).style(FlagStyle::PowerShell),
    ProgramSpec::new(&["Stop-Computer", "Restart-Computer"], common!("-ComputerName= -Force -Credential= -Wait")).style(FlagStyle::PowerShell),
    ProgramSpec::new(&["Start-Process", "saps"], common!("-FilePath= -ArgumentList= -Verb= -WorkingDirectory= -WindowStyle= -Wait -NoNewWindow -PassThru")).style(FlagStyle::PowerShell),
    ProgramSpec::new(&["Set-ExecutionPolicy"], common!("-ExecutionPolicy= -Scope= -Force")).style(FlagStyle::PowerShell),
    ProgramSpec::new(&["Remove-ItemProperty", "Set-ItemProperty", "New-ItemProperty", "New-Item", "Set-Item"], common!("-Path= -LiteralPath= -Name= -Value= -ItemType= -PropertyType= -Force")).style(FlagStyle::PowerShell),
    ProgramSpec::new(&["Set-MpPreference", "Add-MpPreference"], common!("-DisableRealtimeMonitoring= -ExclusionPath= -ExclusionProcess= -Force")).style(FlagStyle::PowerShell),
    ProgramSpec::new(&["Remove-LocalUser", "Remove-ADUser", "Remove-ADObject", "Remove-VM", "Remove-Module", "Uninstall-Package", "Uninstall-Module"], common!("-Name= -Identity= -Recursive -Force -AllVersions")).style(FlagStyle::PowerShell),
    // The first operand is the `{` of a block, whose commands follow.
    ProgramSpec::new(&["ForEach-Object", "%", "Invoke-Command", "icm", "Start-Job", "sajb", "Start-ThreadJob", "Measure-Command"], common!("-Begin= -Process -End= -Parallel -ThrottleLimit= -ScriptBlock -ComputerName= -Session= -Credential= -ArgumentList= -Name= -AsJob")).style(FlagStyle::PowerShell).runs(1),
    ProgramSpec::new(&["%{"], "").style(FlagStyle::PowerShell).runs(0),
    ProgramSpec::new(&["start"], "/d= /b /i /w /min /max /wait /low /high /normal /separate /shared /node= /affinity=").style(FlagStyle::Cmd).runs(0),
    ProgramSpec::new(&["Write-Output", "Write-Host"], common!("-InputObject= -NoNewline -ForegroundColor= -BackgroundColor=")).style(FlagStyle::PowerShell),
];
